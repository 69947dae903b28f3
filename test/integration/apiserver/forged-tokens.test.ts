/**
 * Ten thousand generated forged tokens from a seed, against an apiserver in a process of its own.
 */
import { generateKeyPairSync } from 'node:crypto';
import { jest } from '@jest/globals';
import fc from 'fast-check';
import { connectAgent } from '../../framework/apiserver/agent-client.ts';
import {
  type Agent,
  createAgent,
  createAgentPod,
  type Installation,
  installNamespace,
} from '../../framework/apiserver/cluster.ts';
import { Attack, piecesOf } from '../../framework/apiserver/forgeries/attack.ts';
import {
  oddButGood,
  otherIdentities,
  reviewedForgeries,
  signedTexts,
  untimelyForgeries,
} from '../../framework/apiserver/forgeries/claims.ts';
import type { Attempt, Forgery, World } from '../../framework/apiserver/forgeries/forgery.ts';
import { requestForgeries } from '../../framework/apiserver/forgeries/requests.ts';
import { headerForgeries, signatureForgeries } from '../../framework/apiserver/forgeries/signatures.ts';
import { type ApiserverProcess, spawnApiserver, sumOf } from '../../framework/apiserver/process.ts';
import { clusterKey } from '../../framework/apiserver/tokens.ts';
import type { WireAnswer } from '../../framework/apiserver/wire.ts';
import { auditPosition, countRequests, operatorRequests } from '../../framework/audit.ts';
import type { Connection } from '../../framework/control-plane/connection.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { eventually } from '../../framework/eventually.ts';

// Each of ten thousand forgeries takes a TLS handshake.
jest.setTimeout(400_000);

const seed = Number(process.env['SEED'] ?? 20_260_501);
const TOTAL = 10_000;
/** Each costs the Kubernetes API a review. */
const REVIEWED = 100;
/**
 * Reviews that all forgeries of a limited kind cost together, in the name of one pod: 10 at once,
 * and one more every 5 s.
 */
const LIMITED_REVIEWS = 15;

describe(`forged tokens (SEED=${seed})`, () => {
  let cluster: Connection;
  let installation: Installation;
  let apiserver: ApiserverProcess;
  let world: World;
  let agents: readonly Agent[];

  beforeAll(async () => {
    cluster = connectSharedControlPlane();
    installation = await installNamespace(cluster);
    apiserver = await spawnApiserver(cluster, installation, 'debug');
    agents = await Promise.all(Array.from({ length: 30 }, () => createAgent(cluster, installation.namespace)));
    world = await makeWorld(cluster, installation.namespace);
  });

  afterAll(async () => {
    await apiserver.stop();
    await cluster.close();
  });

  it('are all rejected with the right status, reach no handler, and cost no needless review', async () => {
    const forgeries = allForgeries(world);
    const cheap = forgeries.filter(({ reviews }) => reviews === 0).length;
    const each = Math.ceil((TOTAL - REVIEWED * (forgeries.length - cheap)) / cheap);
    const attack = new Attack(apiserver, world, agents);
    const position = await auditPosition(cluster.auditLogPath);
    const pieces = new Set<string>();
    const table: string[] = [];
    let sent = 0;
    let reviews = 0;
    for (const [index, forgery] of forgeries.entries()) {
      const numRuns = forgery.reviews === 0 ? each : REVIEWED;
      const attempts: Attempt[] = fc.sample(forgery.attempts, { numRuns, seed: seed + index });
      const before = await rejectedReviews(apiserver);
      const { outcomes, good } = await attack.run(attempts);
      const cost = (await rejectedReviews(apiserver)) - before;
      const wrong = outcomes.filter(({ answer }) => !isRight(forgery, answer));
      expect({ forgery: forgery.name, wrong: wrong.slice(0, 3), of: wrong.length }).toEqual({
        forgery: forgery.name,
        wrong: [],
        of: 0,
      });
      expect({ forgery: forgery.name, good: good.filter((answer) => answer?.status !== 200) }).toEqual({
        forgery: forgery.name,
        good: [],
      });
      const costs = forgery.limited === true ? Math.min(cost, LIMITED_REVIEWS) : numRuns * forgery.reviews;
      expect({ forgery: forgery.name, cost }).toEqual({ forgery: forgery.name, cost: costs });
      for (const piece of piecesOf(attempts)) pieces.add(piece);
      sent += numRuns;
      reviews += cost;
      table.push(
        `${forgery.status} ${forgery.code.padEnd(15)} ${String(numRuns).padStart(5)} ${String(cost).padStart(5)} ${forgery.name}`,
      );
    }
    expect(sent).toBeGreaterThanOrEqual(TOTAL);
    process.stdout.write(
      `${table.join('\n')}\n${sent} forged, ${attack.goodCalls} good, ${reviews} reviews, ${(await apiserver.memory()).resident.toFixed(0)} MiB\n`,
    );
    await requireNothingElse(position, attack.goodCalls, reviews);
    requireLogged(sent, pieces);
  });

  it('are rejected for their claims: odd tokens that the Kubernetes API accepts are accepted', async () => {
    const client = connectAgent(apiserver.port, apiserver.ca);
    for (const [what, token] of oddButGood(world)) {
      const { status } = await client.act({ node: world.other.node, token }, 'restore');
      expect({ what, status }).toEqual({ what, status: 200 });
    }
    await client.close();
  });

  /**
   * The Kubernetes API has received the reads of the good calls and the reviews, and nothing for a
   * forgery.
   */
  async function requireNothingElse(position: number, goodCalls: number, reviews: number): Promise<void> {
    const metrics = await apiserver.metrics();
    const accepted = sumOf(metrics, 'brupop_apiserver_token_reviews_total', 'result="accepted"');
    const handled = sumOf(metrics, 'brupop_apiserver_requests_total', 'code="200"');
    expect(handled).toBe(goodCalls);
    await eventually(async () => {
      const counts = countRequests(await operatorRequests(cluster.auditLogPath, installation.namespace, position));
      expect(counts.get('brupop-apiserver get nodes')).toBe(goodCalls);
      expect(counts.get('brupop-apiserver create tokenreviews')).toBe(reviews + accepted);
    });
  }

  function requireLogged(sent: number, pieces: ReadonlySet<string>): void {
    const lines = apiserver
      .log()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { msg: string; error?: string });
    const refusals = lines.filter(({ msg }) => msg === 'request rejected');
    expect(refusals).toHaveLength(sent);
    expect(refusals.filter(({ error = '' }) => error.length < 10)).toEqual([]);
    const runs = new Set([...apiserver.log().matchAll(/[A-Za-z0-9_-]{24,}/gu)].map(([run]) => run));
    const leaked = [...runs].filter((run) => windows(run).some((piece) => pieces.has(piece)));
    expect(leaked).toEqual([]);
  }
});

function isRight({ status, code, limited = false }: Forgery, answer: WireAnswer | undefined): boolean {
  if (limited && answer?.status === 429 && answer.code === 'TooManyRequests') return true;
  return answer?.status === status && answer.code === code;
}

function windows(run: string): string[] {
  return Array.from({ length: run.length - 23 }, (_, at) => run.slice(at, at + 24));
}

async function rejectedReviews(apiserver: ApiserverProcess): Promise<number> {
  return sumOf(await apiserver.metrics(), 'brupop_apiserver_token_reviews_total', 'result="rejected"');
}

function allForgeries(world: World): Forgery[] {
  return [
    ...signatureForgeries(world),
    ...headerForgeries(world),
    signedTexts(world),
    ...untimelyForgeries(world),
    ...otherIdentities(world),
    ...reviewedForgeries(world),
    ...requestForgeries(world),
  ];
}

async function makeWorld(cluster: Connection, namespace: string): Promise<World> {
  const [victim, other] = await Promise.all([createAgent(cluster, namespace), createAgent(cluster, namespace)]);
  const gone = await createAgentPod(cluster, namespace, victim.node);
  const replaced = await createAgentPod(cluster, namespace, victim.node);
  for (const { pod } of [gone, replaced])
    await cluster.api.delete(`/api/v1/namespaces/${namespace}/pods/${pod}`, { gracePeriodSeconds: 0 });
  await eventually(async () => await createAgentPod(cluster, namespace, victim.node, replaced.pod));
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
  return { namespace, victim, other, gone, replaced, key: clusterKey(cluster), strangers: { ec, rsa } };
}
