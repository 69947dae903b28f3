import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { LeaseCandidate, type LeaseCandidateOptions } from './candidate.ts';

/**
 * A candidate in its own process, which can be frozen and killed. It starts when it reads a line,
 * and prints a line when it has observed a holder.
 */
process.stdout.write('up\n');
await once(process.stdin, 'data');
process.stdin.destroy();
const candidate = await LeaseCandidate.start(JSON.parse(process.argv[2] ?? '') as LeaseCandidateOptions);
process.once('SIGTERM', () => void candidate.stop());
while (candidate.election.holder === '') await sleep(10);
process.stdout.write('ready\n');
