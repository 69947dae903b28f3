import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import type { CoreV1EventList, V1ConfigMap, V1Secret } from '@kubernetes/client-node';
import { AUTHORITY_LIFETIME_MS } from '../../../packages/controller/src/certificates/decide.ts';
import { type DataObject, type Objects, serverNames } from '../../../packages/controller/src/certificates/inspect.ts';
import { CertificateIssuer, type TlsMode } from '../../../packages/controller/src/certificates/issuer.ts';
import { CertificateStore, type Contents } from '../../../packages/controller/src/certificates/store.ts';
import { createMetrics } from '../../../packages/controller/src/metrics.ts';
import { tlsHandshake } from '../../../packages/controller/src/testing/tls-handshake.ts';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import {
  CONFIG_NAME,
  CONFIG_PLURAL,
  CONFIG_VERSION,
  CONTROLLER,
  GROUP,
} from '../../../packages/shared/src/api/names.ts';
import { createKubeClient, type KubeClient } from '../../../packages/shared/src/kube/client.ts';
import { Events } from '../../../packages/shared/src/kube/events.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { createRegistry } from '../../../packages/shared/src/runtime/metrics.ts';
import { FakeClock } from '../../../packages/shared/src/testing/fake-clock.ts';
import { auditPosition, operatorRequests } from '../../framework/audit.ts';
import { makeServingCertificate } from '../../framework/certificates.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(120_000);

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const core = `/api/v1/namespaces/${releaseNamespace}`;
const paths = {
  authorities: `${core}/secrets/brupop-ca`,
  bundle: `${core}/configmaps/brupop-ca`,
  serving: `${core}/secrets/brupop-apiserver-tls`,
} as const;
const config = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}`;
const [serverName] = serverNames(releaseNamespace);
const never = new AbortController().signal;
const { log } = recordingLogger();

let cluster: ControlPlane;
let serviceAccountDir = '';
let client: KubeClient;

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster);
  client = await connect();
});

afterEach(async () => {
  for (const path of Object.values(paths)) await cluster.api.delete(path);
});

afterAll(async () => {
  await client.close();
  await cluster.stop();
});

async function connect(clock = systemClock): Promise<KubeClient> {
  const { hostname, port } = new URL(cluster.url);
  const access = { host: hostname, port: Number(port), serviceAccountDir };
  return await createKubeClient({ userAgent: 'brupop-controller', clock, log, access });
}

interface Settings {
  readonly mode?: Exclude<TlsMode, 'provided'>;
  readonly clock?: FakeClock;
  readonly kube?: KubeClient;
  readonly clockSkewMs?: () => number | undefined;
  /** The process is killed after this many writes. */
  readonly killedAfter?: number;
}

/** A store whose process is killed before a write. */
class MortalStore extends CertificateStore {
  readonly #lives: { left: number };

  constructor(options: ConstructorParameters<typeof CertificateStore>[0], left: number) {
    super(options);
    this.#lives = { left };
  }

  override async write(
    object: keyof Objects,
    before: DataObject | undefined,
    contents: Contents,
    signal: AbortSignal,
  ): Promise<DataObject> {
    if (this.#lives.left <= 0) throw new Error('killed');
    this.#lives.left -= 1;
    return await super.write(object, before, contents, signal);
  }
}

/** What a new leader has, as the chart's service account. */
function leader({ mode = 'self', clock, kube = client, clockSkewMs, killedAfter = Infinity }: Settings = {}) {
  const metrics = createMetrics(createRegistry('test'));
  const names = { secretName: 'brupop-apiserver-tls', configMapName: 'brupop-ca' };
  const options = {
    client: kube,
    namespace: releaseNamespace,
    agentNamespace: releaseNamespace,
    ...names,
    hasAuthorities: mode === 'self',
  };
  const issuer = new CertificateIssuer({
    mode,
    namespace: releaseNamespace,
    nodeName: 'node-a',
    store: new MortalStore(options, killedAfter),
    clock: clock ?? systemClock,
    log,
    metrics,
    events: new Events({
      client,
      clock: systemClock,
      log,
      component: CONTROLLER,
      instance: 'a',
      count: () => undefined,
    }),
    clockSkewMs: clockSkewMs ?? (() => 0),
    onReport: () => undefined,
  });
  return { issuer, metrics, check: async () => await issuer.check(never) };
}

interface Written {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

async function written(): Promise<Written> {
  const { data: bundle = {} } = await cluster.api.get<V1ConfigMap>(paths.bundle);
  const { data = {} } = await cluster.api.get<V1Secret>(paths.serving);
  const text = (key: string): string => Buffer.from(data[key] ?? '', 'base64').toString();
  return { ca: bundle['ca.crt'] ?? '', cert: text('tls.crt'), key: text('tls.key') };
}

/** An agent with the bundle of `mounted` accepts an API server with the certificate of `served`. */
async function expectAccepted(served: Written, mounted: Written): Promise<void> {
  const { cert, key } = served;
  expect(await tlsHandshake({ cert, key, ca: mounted.ca, name: serverName })).toBe('TLSv1.3');
}

const authoritiesIn = ({ ca }: Written): number => ca.split('-----BEGIN').length - 1;

describe('a leader that issues the certificate', () => {
  it('makes all three objects where there is nothing, and then reads each once in five minutes', async () => {
    const { issuer, check } = leader();
    await check();
    const first = await written();
    await expectAccepted(first, first);
    expect(issuer.report).toMatchObject({ status: 'True', reason: 'Valid' });
    const { type, metadata } = await cluster.api.get<V1Secret>(paths.serving);
    expect([type, Object.keys(metadata?.annotations ?? {}).toSorted()]).toEqual([
      'kubernetes.io/tls',
      ['brupop.bottlerocket.aws/expires', 'brupop.bottlerocket.aws/issuer'],
    ]);

    const position = await auditPosition(cluster.auditLogPath);
    await check();
    const requests = await eventually(async () => {
      const found = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
      if (found.length < 3) throw new Error('the audit log is not complete yet');
      return found;
    });
    expect(requests.map(({ verb, resource }) => `${verb} ${resource}`).toSorted()).toEqual([
      'get configmaps',
      'get secrets',
      'get secrets',
    ]);
  });

  it.each([0, 1, 2])('continues what a leader did not finish that was killed after %i writes', async (killedAfter) => {
    await expect(leader({ killedAfter }).check()).rejects.toThrow('killed');
    const { issuer, check } = leader();
    await check();
    await expectAccepted(await written(), await written());
    expect(issuer.report?.reason).toBe('Valid');
  });

  it('changes nothing when another one takes over', async () => {
    await leader().check();
    const before = await Promise.all(Object.values(paths).map((path) => cluster.api.get(path)));
    await leader().check();
    expect(await Promise.all(Object.values(paths).map((path) => cluster.api.get(path)))).toEqual(before);
  });

  it('writes nothing without the Lease', async () => {
    await expect(leader({ kube: client.fenced(() => false) }).check()).rejects.toThrow('leadership was lost');
    await expect(cluster.api.get(paths.authorities)).rejects.toMatchObject({ status: 404 });
  });

  it.each(Object.keys(paths) as (keyof typeof paths)[])(
    'replaces the object of the %s when it was deleted, and agents accept the former and the new one',
    async (object) => {
      await leader().check();
      const before = await written();
      await cluster.api.delete(paths[object]);
      await leader().check();
      const after = await written();
      for (const served of [before, after])
        for (const mounted of [before, after]) await expectAccepted(served, mounted);
      expect(authoritiesIn(after)).toBe(object === 'authorities' ? 2 : 1);
    },
  );

  it('replaces a key that does not belong to the certificate', async () => {
    await leader().check();
    const before = await written();
    const other = makeServingCertificate({ commonName: serverName, dnsNames: [serverName] });
    await cluster.api.patch(paths.serving, { stringData: { 'tls.key': other.key } });
    await leader().check();
    await expectAccepted(await written(), before);
  });

  it('overwrites no object that changes while it decides', async () => {
    await leader().check();
    const { check } = leader({ clock: new FakeClock(systemClock.now() + 61 * DAY_MS) });
    const read = jest.spyOn(CertificateStore.prototype, 'read').mockImplementationOnce(async function (
      this: CertificateStore,
      signal,
    ) {
      const objects = await CertificateStore.prototype.read.call(this, signal);
      await cluster.api.patch(paths.serving, { metadata: { annotations: { changed: 'true' } } });
      return objects;
    });
    await expect(check()).rejects.toMatchObject({ status: 409 });
    read.mockRestore();
  });
});

describe('years later', () => {
  it('every certificate is accepted by every agent while it is renewed and its authority replaced', async () => {
    // The clock of TLS cannot be set, so the authority is made long ago and replaced four hours ago.
    const now = systemClock.now();
    const clock = new FakeClock(now - (2 / 3) * AUTHORITY_LIFETIME_MS - 4 * HOUR_MS);
    const step = async (ms: number): Promise<Written> => {
      clock.step(ms);
      await leader({ clock }).check();
      return await written();
    };
    const left = (): number => now - 5 * HOUR_MS - clock.now();
    const certificates = new Set([(await step(0)).cert]);
    while (left() > 0) certificates.add((await step(Math.min(left(), 20 * DAY_MS))).cert);
    expect(certificates.size).toBeGreaterThan(7);

    const before = await step(0);
    const published = await step(HOUR_MS);
    expect([published.cert === before.cert, authoritiesIn(published)]).toEqual([true, 2]);
    expect((await step(HOUR_MS - 60_000)).cert).toBe(published.cert);
    clock.step(2 * 60_000);
    await expect(leader({ clock, killedAfter: 1 }).check()).rejects.toThrow('killed');
    const replaced = await step(0);
    expect(replaced.cert).not.toBe(published.cert);
    for (const served of [published, replaced]) await expectAccepted(served, published);
    const withoutFormer = await step(HOUR_MS);
    expect([withoutFormer.cert === replaced.cert, authoritiesIn(withoutFormer)]).toEqual([true, 1]);
    for (const mounted of [published, withoutFormer]) await expectAccepted(replaced, mounted);
    await expect(tlsHandshake({ ...published, ca: withoutFormer.ca, name: serverName })).rejects.toThrow('unable to');
  });
});

describe('what it cannot repair', () => {
  it('an object that a user has made stays, is trusted, and is reported', async () => {
    const { caCert, cert, key } = makeServingCertificate({ commonName: serverName, dnsNames: [serverName] });
    const stringData = { 'tls.crt': cert, 'tls.key': key, 'ca.crt': caCert };
    const body = { metadata: { name: 'brupop-apiserver-tls' }, type: 'kubernetes.io/tls', stringData };
    const { metadata } = await cluster.api.create<V1Secret>(`${core}/secrets`, body);
    const { issuer, check } = leader();
    await check();
    const { report } = issuer;
    expect(report).toMatchObject({ status: 'False', reason: 'NotOwned' });
    expect(report?.message).toContain('Secret brupop-apiserver-tls: another actor has made it');
    expect((await cluster.api.get<V1Secret>(paths.serving)).metadata).toEqual(metadata);
    const before = await written();
    await expectAccepted(before, before);

    await cluster.api.delete(paths.serving);
    await check();
    const after = await written();
    for (const served of [before, after]) await expectAccepted(served, after);
    expect(issuer.report?.reason).toBe('Valid');
  });

  it('a clock that differs from that of the Kubernetes API: it writes nothing and says where', async () => {
    const clock = new FakeClock(systemClock.now() + 2 * HOUR_MS);
    const kube = await connect({ ...systemClock, now: () => clock.now() });
    const { issuer, check } = leader({ clock, kube, clockSkewMs: () => kube.clockSkewMs() });
    await check();
    expect(issuer.report).toMatchObject({ status: 'False', reason: 'ClockSkew' });
    expect(issuer.report?.message).toMatch(/node-a is 1(19|20) minutes ahead of/);
    await expect(cluster.api.get(paths.authorities)).rejects.toMatchObject({ status: 404 });
    await kube.close();
  });
});

describe('with cert-manager', () => {
  it('copies the authority of the Secret into the ConfigMap, and never writes the Secret', async () => {
    const { issuer, check } = leader({ mode: 'cert-manager' });
    await check();
    expect(issuer.report).toMatchObject({ status: 'False', reason: 'SecretMissing' });
    const { caCert, cert, key } = makeServingCertificate({ commonName: 'first', dnsNames: [serverName] });
    const stringData = { 'tls.crt': cert, 'tls.key': key, 'ca.crt': caCert };
    const body = { metadata: { name: 'brupop-apiserver-tls' }, type: 'kubernetes.io/tls', stringData };
    const { metadata } = await cluster.api.create<V1Secret>(`${core}/secrets`, body);
    await check();
    const first = await written();
    await expectAccepted(first, first);
    expect(issuer.report).toMatchObject({ status: 'True', reason: 'Valid' });
    expect((await cluster.api.get<V1Secret>(paths.serving)).metadata).toEqual(metadata);

    const next = makeServingCertificate({ commonName: 'next', dnsNames: [serverName] });
    const renewed = { 'tls.crt': next.cert, 'tls.key': next.key, 'ca.crt': next.caCert };
    await cluster.api.patch(paths.serving, { stringData: renewed });
    await check();
    const second = await written();
    for (const served of [first, second]) await expectAccepted(served, second);
    await expect(cluster.api.get(paths.authorities)).rejects.toMatchObject({ status: 404 });
  });
});

describe('a controller', () => {
  it('installs the certificate when it becomes the leader, and shows it in metrics, status and Events', async () => {
    const body = {
      apiVersion: `${GROUP}/${CONFIG_VERSION}`,
      kind: 'BrupopConfig',
      metadata: { name: CONFIG_NAME },
      spec: {},
    };
    await cluster.api.create(config, body);
    let replica: Replica | undefined;
    try {
      const running = await startReplica(cluster, serviceAccountDir, { tlsMode: 'self' });
      replica = running;
      await eventually(async () => {
        const { status } = await cluster.api.get<BrupopConfig>(`${config}/${CONFIG_NAME}`);
        const ready = status?.conditions?.find(({ type }) => type === 'CertificateReady');
        expect(ready).toMatchObject({ status: 'True', reason: 'Valid' });
        expect(ready?.message).toMatch(/^Issued by O=brupop-bottlerocket-aws, CN=brupop CA [0-9a-f]{8}, valid until /);
      });
      const first = await written();
      await expectAccepted(first, first);
      expect(await running.metrics()).toMatch(
        /^brupop_controller_certificate_expiry_timestamp_seconds\{certificate="serving",issuer="O=.*"\} \d+$/m,
      );
      expect(await running.metrics()).toMatch(/^brupop_controller_certificate_ready\{mode="self"\} 1$/m);
      await eventually(async () => {
        const { items } = await cluster.api.get<CoreV1EventList>(`${core}/events`);
        const reasons = items.map(({ reason = '', involvedObject: { name = '' } }) => `${reason} ${name}`);
        expect(reasons).toEqual(
          expect.arrayContaining(['AuthorityCreated brupop-ca', 'CertificateIssued brupop-apiserver-tls']),
        );
      });
    } finally {
      await replica?.stop();
      await cluster.api.delete(`${config}/${CONFIG_NAME}`);
    }
  });
});

it('only the controller has the library that makes certificates, and loads it when it issues one', async () => {
  const dist = join(import.meta.dirname, '../../../dist');
  const has = (program: string): boolean =>
    readFileSync(join(dist, `${program}.mjs`), 'utf8').includes('requires a reflect polyfill');
  expect(['agent', 'apiserver', 'controller'].filter(has)).toEqual(['controller']);
  const program = `await import(${JSON.stringify(join(dist, 'controller.mjs'))}); console.log(typeof Reflect.getMetadata)`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
  expect(stdout.trim()).toBe('undefined');
});
