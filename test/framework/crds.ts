import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'yaml';
import type { Connection } from './control-plane/connection.ts';

export const chartDir = join(import.meta.dirname, '../../charts/bottlerocket-update-operator');

const crdNames = ['bottlerocketshadows', 'brupopconfigs', 'bottlerocketnodegroups'] as const;
export type CrdName = (typeof crdNames)[number];

/** A structural schema, as far as tests look at it. */
export interface Schema {
  type?: string;
  description?: string;
  nullable?: boolean;
  minimum?: number;
  maximum?: number;
  required?: string[];
  enum?: string[];
  properties?: Record<string, Schema>;
  items?: Schema;
  'x-kubernetes-int-or-string'?: boolean;
  'x-kubernetes-validations'?: { rule: string; message: string }[];
}

export interface Crd {
  metadata: { name: string; annotations?: Record<string, string> };
  spec: {
    group: string;
    scope: string;
    names: { kind: string; plural: string; shortNames: string[] };
    versions: {
      name: string;
      schema: { openAPIV3Schema: Schema };
      additionalPrinterColumns: { name: string }[];
    }[];
  };
}

/** A custom resource definition as the chart has it. */
export function readCrd(name: CrdName): Crd {
  return parse(readFileSync(join(chartDir, 'templates/crds', `${name}.yaml`), 'utf8')) as Crd;
}

/**
 * Applies the chart's definitions and waits until their objects are served and kubectl would find them by their short
 * names (at most 20 s each). Safe to call from several suites at once.
 */
export async function installCrds({ api }: Pick<Connection, 'api'>): Promise<void> {
  for (const name of crdNames) {
    const crd = readCrd(name);
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${crd.metadata.name}`;
    await api.request('PATCH', `${path}?fieldManager=test&force=true`, crd, 'application/apply-patch+yaml');
    const { group, names, versions } = crd.spec;
    const version = `${group}/${versions[0]?.name}`;
    // Before that the API server answers 404, then 429.
    await succeeds(async () => await api.get(`/apis/${version}/${names.plural}?limit=1`));
    await succeeds(async () => await discover(api, crd));
  }
}

/** kubectl reads the aggregated discovery, which kube-apiserver brings up to date after it serves the objects. */
async function discover(api: Connection['api'], { spec }: Crd): Promise<void> {
  const { items } = await api.discover();
  const resources = items
    .filter(({ metadata }) => metadata.name === spec.group)
    .flatMap(({ versions }) => versions.flatMap((version) => version.resources));
  if (resources.some(({ resource }) => resource === spec.names.plural)) return;
  throw new Error(
    `expected ${spec.names.plural} in the discovery of ${spec.group}, found ${JSON.stringify(resources)}`,
  );
}

async function succeeds(attempt: () => Promise<unknown>): Promise<void> {
  const deadline = Date.now() + 20_000;
  for (;;) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    await sleep(50);
  }
}
