import { jest } from '@jest/globals';
import { createKubeClient, type KubeClient } from '../../../packages/shared/src/kube/client.ts';
import { LeaderElection } from '../../../packages/shared/src/kube/leader-election.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { eventually } from '../../framework/eventually.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(60_000);

interface Lease {
  readonly spec: { readonly holderIdentity: string; readonly leaseTransitions: number; readonly renewTime: string };
}

interface Candidate {
  readonly election: LeaderElection;
  readonly client: KubeClient;
  /** Stops it gracefully. */
  readonly stop: () => Promise<void>;
  /** When it last became leader and lost leadership, on the monotonic clock. */
  readonly times: { led?: number; lost?: number };
}

describe('leader election', () => {
  const cluster = connectSharedControlPlane();
  let namespace = '';
  const candidates: Candidate[] = [];

  beforeAll(async () => {
    namespace = await createNamespace(cluster, 'lease');
  });

  afterEach(async () => {
    await Promise.all(candidates.splice(0).map(({ stop }) => stop()));
  });

  afterAll(async () => {
    await cluster.api.delete(`/api/v1/namespaces/${namespace}`);
    await cluster.close();
  });

  const leasePath = (name: string): string => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`;

  async function startCandidate(name: string, identity: string): Promise<Candidate> {
    const { log } = recordingLogger();
    const client = await createKubeClient({
      userAgent: identity,
      clock: systemClock,
      log,
      access: cluster.accessAs('admin'),
    });
    const limits = { leaseDurationMs: 3_000, renewDeadlineMs: 2_000, retryPeriodMs: 400 };
    const election = new LeaderElection({ client, clock: systemClock, log, namespace, name, identity, ...limits });
    const stopping = new AbortController();
    const times: Candidate['times'] = {};
    const running = election.run(stopping.signal, async (leading) => {
      times.led = performance.now();
      await new Promise<void>((resolve) => {
        leading.addEventListener('abort', () => resolve(), { once: true });
      });
      times.lost = performance.now();
    });
    const stop = async (): Promise<void> => {
      stopping.abort();
      await running;
      await client.close();
    };
    const candidate = { election, client, stop, times };
    candidates.push(candidate);
    return candidate;
  }

  it('has one leader, which keeps renewing', async () => {
    const [a, b] = [await startCandidate('one', 'a'), await startCandidate('one', 'b')];
    await eventually(() => expect(a.election.isLeading() || b.election.isLeading()).toBe(true));
    const first = await cluster.api.get<Lease>(leasePath('one'));
    expect(first.spec.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/u);
    await eventually(async () => {
      expect((await cluster.api.get<Lease>(leasePath('one'))).spec.renewTime).not.toBe(first.spec.renewTime);
    });
    expect([a.election.isLeading(), b.election.isLeading()].filter(Boolean)).toHaveLength(1);
  });

  it('hands over within a second when the leader stops gracefully', async () => {
    const a = await startCandidate('handover', 'a');
    await eventually(() => expect(a.election.isLeading()).toBe(true));
    const b = await startCandidate('handover', 'b');
    await eventually(() => expect(b.election.holder).toBe('a'));
    const stoppedAt = performance.now();
    await a.stop();
    await eventually(() => expect(b.election.isLeading()).toBe(true));
    expect((b.times.led ?? Infinity) - stoppedAt).toBeLessThan(1_000);
    expect((await cluster.api.get<Lease>(leasePath('handover'))).spec).toMatchObject({
      holderIdentity: 'b',
      leaseTransitions: 1,
    });
  });

  it('goes to another candidate when the leader stops renewing, which by then has stopped leading', async () => {
    const a = await startCandidate('unrenewed', 'a');
    await eventually(() => expect(a.election.isLeading()).toBe(true));
    const b = await startCandidate('unrenewed', 'b');
    await eventually(() => expect(b.election.holder).toBe('a'));
    await a.client.close();
    await eventually(() => expect(b.election.isLeading()).toBe(true));
    expect(a.election.isLeading()).toBe(false);
    expect(a.times.lost ?? Infinity).toBeLessThan(b.times.led ?? 0);
  });

  it('ends for a leader whose Lease another actor has edited', async () => {
    const a = await startCandidate('taken', 'a');
    await eventually(() => expect(a.election.isLeading()).toBe(true));
    await eventually(async () => {
      const lease = await cluster.api.get<object>(leasePath('taken'));
      await cluster.api.request('PUT', leasePath('taken'), {
        ...lease,
        spec: { holderIdentity: 'x', leaseDurationSeconds: 60 },
      });
    });
    await eventually(() => expect(a.election.isLeading()).toBe(false));
    expect(a.times.lost).toBeDefined();
  });

  it('starts again with a new Lease when the Lease was deleted', async () => {
    const a = await startCandidate('deleted', 'a');
    await eventually(() => expect(a.election.isLeading()).toBe(true));
    await cluster.api.delete(leasePath('deleted'));
    await eventually(async () => {
      expect((await cluster.api.get<Lease>(leasePath('deleted'))).spec.holderIdentity).toBe('a');
      expect(a.election.isLeading()).toBe(true);
    });
  });
});
