import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Contender, type ContenderOptions } from './candidate.ts';

/** A contender that is a process of its own, so that it can be frozen and killed. It stands when it is told to, and says when it has seen a holder. */
process.stdout.write('up\n');
await once(process.stdin, 'data');
process.stdin.destroy();
const contender = await Contender.start(JSON.parse(process.argv[2] ?? '') as ContenderOptions);
process.once('SIGTERM', () => void contender.stop());
while (contender.election.holder === undefined) await sleep(10);
process.stdout.write('ready\n');
