import { X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { V1ConfigMap, V1PodList, V1Secret } from '@kubernetes/client-node';
import { jest } from '@jest/globals';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import { APISERVER } from '../../../packages/shared/src/api/names.ts';
import { rfc3339 } from '../../../packages/shared/src/runtime/clock.ts';
import { installCertManagerCrds, issueAsCertManager } from '../../framework/chart/cert-manager.ts';
import { commandsOf, runCommands } from '../../framework/commands.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import type { Values } from '../../framework/fleet/operator.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

const RUNBOOK = 'docs/runbook.md';
const CHANGE = commandsOf(RUNBOOK, 'Change tls.mode');
const PROVIDE = commandsOf(RUNBOOK, 'Provide the certificate');
/** The Secret is replaced when all agents have the new authority, and the old one is removed when the Secret is in use. */
const REPLACE = PROVIDE.indexOf('kubectl create secret');
const REMOVE = PROVIDE.lastIndexOf('kubectl create configmap');

const core = '/api/v1/namespaces/brupop-bottlerocket-aws';
const SECRET = `${core}/secrets/brupop-apiserver-tls`;
const LIMIT = { limitMs: 60_000 };
const LOADED = /using the serving certificate of the files.*/gu;

const served = async ({ cluster: { api } }: FleetContext): Promise<string | undefined> =>
  (await api.get<V1Secret>(SECRET)).data?.['tls.crt'];

async function authorities({ cluster: { api } }: FleetContext): Promise<number> {
  const { data } = await api.get<V1ConfigMap>(`${core}/configmaps/brupop-ca`);
  return (data?.['ca.crt'] ?? '').split('-----BEGIN').length - 1;
}

/** The logs of the API servers by the UID of their pod, which must not change. */
async function apiservers({ cluster: { api }, fleet }: FleetContext): Promise<ReadonlyMap<string, string>> {
  const selector = `brupop.bottlerocket.aws/component=${APISERVER}`;
  const { items } = await api.get<V1PodList>(`${core}/pods?labelSelector=${encodeURIComponent(selector)}`);
  const logs = items.map(
    async ({ metadata }) => [metadata?.uid ?? '', await fleet.kubelet.logs(metadata?.name ?? '')] as const,
  );
  return new Map(await Promise.all(logs));
}

/** All replicas use the certificate in the Secret, and agents update their nodes over it. */
async function expectUpdates(context: FleetContext): Promise<void> {
  const { fleet } = context;
  const pem = Buffer.from((await served(context)) ?? '', 'base64').toString();
  const notAfter = rfc3339(new X509Certificate(pem).validToDate.getTime());
  await eventually(async () => {
    for (const logs of (await apiservers(context)).values()) expect(logs.match(LOADED)?.at(-1)).toContain(notAfter);
  }, LIMIT);
  await fleet.untilAllRun(fleet.publishNext());
}

async function certificateReady({ cluster: { api } }: FleetContext): Promise<string | undefined> {
  const { status } = await api.get<BrupopConfig>('/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster');
  return status?.conditions?.find(({ type }) => type === 'CertificateReady')?.reason;
}

const modeOf = (mode: string): Values => ({ 'tls.mode': mode, 'agent.updateCheckIntervalSeconds': 5 });

const folder = mkdtempSync(join(tmpdir(), 'brupop-tls-'));
afterAll(() => rmSync(folder, { recursive: true }));

const run = async ({ cluster }: FleetContext, text: string): Promise<string> =>
  await runCommands(cluster, `cd ${folder}\n${text}`);

async function changeToSelf(context: FleetContext): Promise<void> {
  const provided = await served(context);
  await context.fleet.operator.upgrade(modeOf('self'));
  await eventually(async () => expect(await certificateReady(context)).toBe('NotOwned'), LIMIT);
  await run(context, CHANGE);
  await eventually(async () => expect(await authorities(context)).toBe(2), LIMIT);
  expect(await served(context)).toBe(provided);
  await expectUpdates(context);
}

async function changeToProvided(context: FleetContext): Promise<void> {
  await context.fleet.operator.upgrade(modeOf('provided'));
  await run(context, commandsOf(RUNBOOK, 'Make a certificate'));
  await run(context, PROVIDE.slice(0, REPLACE));
  expect(await authorities(context)).toBe(3);
  await expectUpdates(context);
  await run(context, PROVIDE.slice(REPLACE, REMOVE));
  await expectUpdates(context);
  await run(context, PROVIDE.slice(REMOVE));
  expect(await authorities(context)).toBe(1);
  await expectUpdates(context);
}

async function changeToCertManager(context: FleetContext): Promise<void> {
  const { serverName } = context.fleet.operator;
  await context.fleet.operator.upgrade(modeOf('cert-manager'));
  await issueAsCertManager(context.cluster, { path: SECRET, serverName });
  await eventually(async () => expect(await authorities(context)).toBe(2), LIMIT);
  await eventually(async () => expect(await certificateReady(context)).toBe('Valid'), LIMIT);
  await expectUpdates(context);
}

it('tls.mode is changed on a running fleet, by the documented commands, and updates go on', async () => {
  const before = async ({ cluster }: FleetContext): Promise<void> => await installCertManagerCrds(cluster);
  await withFleet({ nodes: fleetNodes(2), values: modeOf('provided'), before }, async (context) => {
    await context.fleet.untilAllRun(NEW);
    const uids = [...(await apiservers(context)).keys()];
    await changeToSelf(context);
    await changeToProvided(context);
    await changeToCertManager(context);
    expect([...(await apiservers(context)).keys()]).toEqual(uids);
  });
});
