/**
 * Leaders that are killed at any request while they scale dependents, on a real kube-apiserver: before the API server gets
 * the request, or before its response arrives. The kubelets of most nodes are played by the test, so that a loss begins and
 * ends when it wants.
 */
import { mkdtempSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { targetKey } from '../../../packages/shared/src/api/config-dependents.ts';
import {
  CONFIG_NAME,
  CONFIG_PLURAL,
  CONFIG_VERSION,
  CONTROLLER,
  GROUP,
} from '../../../packages/shared/src/api/names.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { CUT_OFF_ANNOTATION, LEASES } from '../../framework/control-plane/node-leases.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { accountOfController } from '../../framework/controller/installation.ts';
import { type ControllerProcess, spawnController } from '../../framework/controller/process.ts';
import {
  dependentsByLevel,
  DOWN,
  installWithTargets,
  ScaledTargets,
  TARGETS,
  untilLeasesCount,
  UP,
} from '../../framework/controller/scaled-targets.ts';
import { eventually } from '../../framework/eventually.ts';
import { presentCredentials } from '../../framework/faulty-api/access.ts';
import { FaultyApi } from '../../framework/faulty-api/faulty-api.ts';
import { startWatchdog, type Watchdog } from '../../framework/watchdog.ts';

// oxlint-disable-next-line node/no-process-env -- a longer run is asked for so
const { BRUPOP_KILLS = '20' } = process.env;
const KILLS = Number(BRUPOP_KILLS);
/** A leader waits 20 seconds until it scales, and the next one too. */
const LIMIT = { limitMs: 120_000, pauseMs: 50 };
jest.setTimeout(300_000 + KILLS * LIMIT.limitMs);

const CONFIGS = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}`;
const LEADER = `/apis/coordination.k8s.io/v1/namespaces/${releaseNamespace}/leases/${CONTROLLER}`;
const SILENT = [1, 2, 3, 4, 5, 6, 7].map((index) => `node-${index}`);
const OTHERS = ['node-8', 'node-9', 'node-10'];
/** Leases expire after three quarters of it, so none does while the test renews it. */
const nodeMonitorGracePeriod = '40m';
const LOST_FOR_MS = 45 * 60_000;
/** Requests by which a leader scales, and shows that it has: at least this many in each direction. */
const REQUESTS = 15;
/** It is no divisor of them, so that sixty kills are at each request, of both kinds, in both directions. */
const STEP = 7;
const KINDS = ['silent', 'lost'] as const;
const OF_SCALING = /\/(?:deployments\/|brupopconfigs\/cluster\/status|events)/u;

let cluster: ControlPlane;
let api: FaultyApi;
let targets: ScaledTargets;
let serviceAccountDir = '';
let watchdog: Watchdog;

beforeAll(async () => {
  cluster = await startControlPlane();
  await installWithTargets(cluster);
  api = await FaultyApi.start(cluster);
  serviceAccountDir = mkdtempSync(join(tmpdir(), 'brupop-killed-'));
  watchdog = startWatchdog(serviceAccountDir);
  for (const [index, name] of [...SILENT, ...OTHERS].entries()) {
    const annotations = { ...(SILENT.includes(name) && { [CUT_OFF_ANNOTATION]: 'true' }) };
    await createNode(cluster, { name, zone: index % 2 === 0 ? 'a' : 'b', annotations });
  }
  await cluster.api.create(CONFIGS, {
    apiVersion: `${GROUP}/${CONFIG_VERSION}`,
    kind: 'BrupopConfig',
    metadata: { name: CONFIG_NAME },
    spec: { connectivity: { nodeMonitorGracePeriod, dependents: dependentsByLevel('1s') } },
  });
  targets = await ScaledTargets.deploy(cluster);
  await setLost(false);
  await untilLeasesCount(cluster, [...SILENT, ...OTHERS]);
});

afterAll(async () => {
  await watchdog.release();
  await api.stop();
  await cluster.stop();
});

/** What kubelets that are connected, or are not, have written by now. */
async function setLost(lost: boolean): Promise<void> {
  const renewTime = new Date(Date.now() - (lost ? LOST_FOR_MS : 0)).toISOString().replace('Z', '000Z');
  for (const name of SILENT) {
    const spec = { holderIdentity: name, leaseDurationSeconds: 40, renewTime };
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name }, spec };
    const path = `${LEASES}/${name}?fieldManager=kubelet&force=true`;
    await cluster.api.request('PATCH', path, lease, 'application/apply-patch+yaml');
  }
}

/** A process, which leads at once. Its token is new: one ends after an hour. */
async function start(): Promise<ControllerProcess> {
  const account = await accountOfController(cluster);
  await presentCredentials(serviceAccountDir, { token: await readFile(join(account, 'token'), 'utf8'), ca: api.ca });
  return await spawnController(watchdog, api.url, serviceAccountDir, { DEPENDENTS: TARGETS.map(targetKey).join(',') });
}

/** As when its Lease has expired, which takes 16 seconds. */
async function kill(leader: ControllerProcess): Promise<void> {
  await leader.kill();
  await cluster.api.patch(LEADER, { spec: { holderIdentity: '', leaseDurationSeconds: 1 } });
}

async function killAt(request: number, kind: 'silent' | 'lost'): Promise<void> {
  const before = api.replaced;
  api.set({
    match: { verbs: ['get', 'patch', 'update', 'create'], path: OF_SCALING },
    answer: { kind },
    after: request,
    times: 1,
  });
  const leader = await start();
  await eventually(
    () => {
      if (api.replaced > before) return;
      throw new Error(`expected at least ${request + 1} requests, found fewer: ${leader.log()}`);
    },
    { ...LIMIT, pauseMs: 5 },
  );
  await kill(leader);
  api.clear();
}

it(`leaders that are killed at any request leave nothing at 0 and lose no number, ${BRUPOP_KILLS} times`, async () => {
  for (let killed = 0; killed < KILLS; killed += 1) {
    const lost = killed % 2 === 0;
    await setLost(lost);
    const turn = Math.floor(killed / 2);
    const request = (turn * STEP) % REQUESTS;
    const kind = KINDS[turn % 2] ?? 'lost';
    await killAt(request, kind);
    for (const [index, scale] of (await targets.scales()).entries()) expect([UP[index], DOWN[index]]).toContain(scale);
    const next = await start();
    await eventually(
      async () =>
        expect({ killed, request, kind, scales: await targets.scales() }).toEqual({
          killed,
          request,
          kind,
          scales: lost ? DOWN : UP,
        }),
      LIMIT,
    );
    await kill(next);
  }
  const killedAt = api.requests
    .filter(({ answer }) => answer !== undefined)
    .map(({ verb, path, answer }) => `${verb} ${path.split('/').at(-1)} ${answer?.kind}`);
  process.stdout.write(`${killedAt.length} leaders were killed: ${[...new Set(killedAt)].toSorted().join(', ')}\n`);
  expect(killedAt).toHaveLength(KILLS);
});
