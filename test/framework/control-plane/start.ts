import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { startWatchdog, type Watchdog } from '../watchdog.ts';
import type { Api } from './api.ts';
import {
  apiserverArguments,
  auditPolicy,
  controllerManagerArguments,
  type ControlPlaneOptions,
  etcdArguments,
  issuer,
  kwokArguments,
  type Ports,
  schedulerArguments,
} from './arguments.ts';
import { type Connection, connectionTo } from './connection.ts';
import { type Identities, type User, users, writeIdentities, writeKubeconfig } from './identities.ts';
import { NodeLeases } from './node-leases.ts';
import { obtainPrograms } from './obtain.ts';
import { freePorts } from './ports.ts';
import { type Component, ComponentExited, ComponentProcess } from './process.ts';
import { kwokConfig, kwokNodeAnnotation } from './stages.ts';
import type { Assets, Program } from './versions.ts';

export type Components = Record<'etcd' | 'apiserver' | 'controllerManager' | 'scheduler' | 'kwok', Component>;

/**
 * A running control plane that this process owns. It ends with this process, even one that is
 * killed.
 */
export interface ControlPlane extends Connection {
  components: Components;
  /** Ends all programs and removes the folder. Safe to call twice. */
  stop(): Promise<void>;
}

const attempts = 5;

/**
 * Starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK on free loopback
 * ports, renews the leases of the nodes, and resolves when the API server is ready and the default
 * namespace has its service account (so the controller manager works). Throws when a program ends
 * or is not ready in time, with the end of its log; nothing is left running then.
 */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const assets = await obtainPrograms();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await startOnce(assets, options);
    } catch (error) {
      const portTaken = error instanceof ComponentExited && /address already in use/i.test(error.log);
      if (!portTaken || attempt === attempts) throw error;
    }
  }
}

async function startOnce(assets: Assets, options: ControlPlaneOptions): Promise<ControlPlane> {
  const dir = mkdtempSync(join(tmpdir(), 'brupop-control-plane-'));
  const watchdog = startWatchdog(dir);
  try {
    return await startIn(dir, watchdog, assets, options);
  } catch (error) {
    await watchdog.release();
    throw error;
  }
}

async function startIn(
  dir: string,
  watchdog: Watchdog,
  assets: Assets,
  options: ControlPlaneOptions,
): Promise<ControlPlane> {
  const [etcdPort = 0, etcdPeer = 0, apiserverPort = 0] = await freePorts(3);
  const ports: Ports = { etcd: etcdPort, etcdPeer, apiserver: apiserverPort };
  const url = `https://127.0.0.1:${ports.apiserver}`;
  const identities = writeIdentities(dir, options.signingCurve);
  for (const user of Object.keys(users) as User[]) writeKubeconfig(dir, url, user, identities);
  writeFileSync(join(dir, 'audit-policy.json'), auditPolicy(options.auditLevel ?? 'Metadata'));
  writeFileSync(join(dir, 'kwok.yaml'), kwokConfig);
  const connection = connectionTo({ url, dir, caFile: identities.caFile, tokens: identities.tokens, assets, issuer });
  const make = maker(dir, watchdog, assets);
  const parts = makeParts(make, { dir, ports, identities, options, api: connection.api });
  await startParts(parts, connection.api);
  const leases = new NodeLeases(connection.api.as(identities.tokens['stand-in-kubelet']));
  if (options.renewsLeases !== false) leases.start();
  return { ...connection, components: parts, stop: stopper(parts, connection, leases, watchdog) };
}

type Parts = Record<keyof Components, ComponentProcess>;
type Make = (program: Program, args: string[], probe?: () => Promise<void>) => ComponentProcess;

function maker(dir: string, watchdog: Watchdog, assets: Assets): Make {
  return (program, args, probe) =>
    new ComponentProcess({
      name: program,
      program: assets[program],
      args,
      cwd: dir,
      logPath: join(dir, `${program}.log`),
      watchdog,
      ...(probe === undefined ? {} : { probe }),
    });
}

interface Plan {
  dir: string;
  ports: Ports;
  identities: Identities;
  options: ControlPlaneOptions;
  api: Api;
}

function makeParts(make: Make, { dir, ports, identities, options, api }: Plan): Parts {
  const kubeconfig = (user: User): string => join(dir, `${user}.kubeconfig`);
  return {
    etcd: make('etcd', etcdArguments(ports), async () => await etcdHealthy(ports.etcd)),
    apiserver: make(
      'kube-apiserver',
      apiserverArguments(ports, identities, options),
      async () => await apiserverReady(api),
    ),
    controllerManager: make(
      'kube-controller-manager',
      controllerManagerArguments(kubeconfig('kube-controller-manager'), identities, options),
    ),
    scheduler: make('kube-scheduler', schedulerArguments(kubeconfig('kube-scheduler'))),
    kwok: make('kwok', kwokArguments(kubeconfig('kwok'), `${kwokNodeAnnotation}=fake`)),
  };
}

async function startParts(parts: Parts, api: Api): Promise<void> {
  parts.etcd.start();
  parts.apiserver.start();
  await parts.etcd.ready();
  await parts.apiserver.ready();
  for (const part of [parts.controllerManager, parts.scheduler, parts.kwok]) part.start();
  await defaultServiceAccount(parts, api);
}

async function etcdHealthy(port: number): Promise<void> {
  const response = await request(`http://127.0.0.1:${port}/health`, { signal: AbortSignal.timeout(2_000) });
  const text = await response.body.text();
  if (response.statusCode !== 200) throw new Error(`/health says ${response.statusCode}: ${text}`);
}

async function apiserverReady(api: Api): Promise<void> {
  await api.get('/readyz');
}

/** Its existence shows that the controller manager is at work. */
async function defaultServiceAccount(parts: Parts, api: Api): Promise<void> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    for (const part of Object.values(parts)) {
      if (part.pid === undefined) throw new ComponentExited(part.name, 'on its own', part.logTail());
    }
    try {
      await api.get('/api/v1/namespaces/default/serviceaccounts/default');
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    await sleep(50);
  }
}

/** Ends the clients first, then the API server, then etcd; the watchdog removes the folder. */
function stopper(parts: Parts, connection: Connection, leases: NodeLeases, watchdog: Watchdog): () => Promise<void> {
  let stopped: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    const renewed = leases.stop();
    await connection.close(); // a renewal that is under way ends as well
    await renewed;
    await Promise.all([parts.kwok.stop(), parts.scheduler.stop(), parts.controllerManager.stop()]);
    await parts.apiserver.stop();
    await parts.etcd.stop();
    await watchdog.release();
  };
  return () => (stopped ??= stop());
}
