/**
 * Generated bodies and requests from a seed, sent by authenticated agents to an apiserver in a
 * process of its own.
 */
import { jest } from '@jest/globals';
import fc from 'fast-check';
import { createAgent, type Installation, installNamespace } from '../../framework/apiserver/cluster.ts';
import { type BodyCase, bodyCases } from '../../framework/apiserver/fuzz/bodies.ts';
import { type RawCase, rawCases } from '../../framework/apiserver/fuzz/requests.ts';
import { fullReport, Subject } from '../../framework/apiserver/fuzz/subject.ts';
import { type ApiserverProcess, spawnApiserver, sumOf } from '../../framework/apiserver/process.ts';
import { auditPosition, countRequests, operatorRequests } from '../../framework/audit.ts';
import type { Connection } from '../../framework/control-plane/connection.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const seed = Number(process.env['SEED'] ?? 20_260_502);
/** Each agent sends fewer requests than the rate limit of a node allows at once. */
const AGENTS = 72;
const BODIES_EACH = 24;
const REQUESTS_EACH = 4;
const AT_A_TIME = 8;

/** Most bodies are for the call that writes them to the shadow. */
const actions = [
  'PUT shadow/status',
  'PUT shadow/status',
  'PUT shadow/status',
  'PUT shadow/status',
  'POST drain',
  'POST load-balancer-exclusion',
  'PUT shadow',
  'POST restore',
];

describe(`bad requests (SEED=${seed})`, () => {
  let cluster: Connection;
  let installation: Installation;
  let apiserver: ApiserverProcess;

  beforeAll(async () => {
    cluster = connectSharedControlPlane();
    installation = await installNamespace(cluster);
    apiserver = await spawnApiserver(cluster, installation);
  });

  afterAll(async () => {
    await apiserver.stop();
    await cluster.close();
  });

  it('are answered with a code of the protocol, and change nothing or exactly what they report', async () => {
    const { namespace } = installation;
    const position = await auditPosition(cluster.auditLogPath);
    const problems: string[] = [];
    const numbers = Array.from({ length: AGENTS }, (_, number) => number);
    const cases = makeCases();
    let [tried, written] = [0, 0];
    const worker = async (): Promise<void> => {
      for (let number = numbers.pop(); number !== undefined; number = numbers.pop()) {
        const agent = await createAgent(cluster, namespace);
        const to = { port: apiserver.port, ca: apiserver.ca, localAddress: `127.2.0.${number + 1}` };
        const subject = await Subject.make(cluster, namespace, agent, to);
        await attackAs(subject, number, cases);
        tried += BODIES_EACH + REQUESTS_EACH;
        problems.push(...subject.problems);
        written += subject.written;
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, worker));
    process.stdout.write(
      `${tried} bad requests, ${written} of them good reports, ${(await apiserver.memory()).resident.toFixed(0)} MiB\n`,
    );
    expect({ first: problems.slice(0, 5), of: problems.length }).toEqual({ first: [], of: 0 });
    expect(tried).toBeGreaterThanOrEqual(2_000);
    expect(written).toBeGreaterThan(20);
    await requireOnlyReports(position, written);
  });

  /** Only the reports were written, and no request has failed. */
  async function requireOnlyReports(position: number, written: number): Promise<void> {
    const metrics = await apiserver.metrics();
    expect(sumOf(metrics, 'brupop_apiserver_requests_total', 'code="5')).toBe(0);
    expect(
      apiserver
        .log()
        .split('\n')
        .filter((line) => line.includes('"level":"error"')),
    ).toEqual([]);
    await eventually(async () => {
      const requests = await operatorRequests(cluster.auditLogPath, installation.namespace, position);
      const writes = requests.filter(({ verb, status }) => !['get', 'list', 'watch'].includes(verb) && status < 300);
      const counts = countRequests(writes.filter(({ resource }) => resource !== 'tokenreviews'));
      expect(Object.fromEntries(counts)).toEqual({
        'brupop-apiserver patch bottlerocketshadows/status': written,
      });
    });
  }
});

/** Placeholders for what is not known before an agent is created. */
const some = { uid: '00000000-0000-4000-8000-00000000feed', node: 'node-00000000', token: 'TOKEN' };

interface Cases {
  readonly actions: readonly string[];
  readonly reports: readonly BodyCase[];
  readonly references: readonly BodyCase[];
  readonly requests: readonly RawCase[];
}

function makeCases(): Cases {
  const report = fullReport(some.uid);
  const numRuns = AGENTS * BODIES_EACH;
  return {
    actions: fc.sample(fc.constantFrom(...actions), { numRuns, seed }),
    reports: fc.sample(bodyCases(report), { numRuns, seed: seed + 1 }),
    references: fc.sample(bodyCases({ shadowUID: some.uid, generation: 1 }), { numRuns, seed: seed + 2 }),
    requests: fc.sample(rawCases({ ...some, report: JSON.stringify(report) }), {
      numRuns: AGENTS * REQUESTS_EACH,
      seed: seed + 3,
    }),
  };
}

/** Tries the cases of an agent. */
async function attackAs(subject: Subject, number: number, cases: Cases): Promise<void> {
  for (let index = number * BODIES_EACH; index < (number + 1) * BODIES_EACH; index += 1) {
    const [method = '', path = ''] = (cases.actions[index] ?? '').split(' ');
    const refers = path === 'drain' || path === 'load-balancer-exclusion';
    const one = (refers ? cases.references : cases.reports)[index];
    if (one === undefined) throw new Error('too few cases');
    const body = Buffer.from(one.body.toString('latin1').replaceAll(some.uid, subject.shadowUID), 'latin1');
    await subject.body(method, path, { ...one, body });
  }
  const { node, token } = subject.agent;
  const mine = cases.requests.slice(number * REQUESTS_EACH, (number + 1) * REQUESTS_EACH);
  for (const { kind, text, codes, cut = false } of mine) {
    const own = text.replaceAll(some.uid, subject.shadowUID).replaceAll(some.node, node).replaceAll(some.token, token);
    await subject.raw(kind, own, codes, cut);
  }
  await subject.finish();
}
