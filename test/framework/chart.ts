import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { V1Container, V1PodSpec } from '@kubernetes/client-node';
import { parse, parseAllDocuments } from 'yaml';
import type { Connection } from './control-plane/connection.ts';
import { chartDir } from './crds.ts';

/** An object of the chart, as far as tests look at it. */
export interface Rendered {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string>; annotations?: Record<string, string> };
  spec?: Record<string, unknown>;
}

export const releaseNamespace = 'brupop-bottlerocket-aws';

/** The options of Node.js with which the chart starts a program. */
export function nodeFlags(program: 'agent' | 'apiserver' | 'controller'): string[] {
  const values = parse(readFileSync(join(chartDir, 'values.yaml'), 'utf8')) as Record<string, { nodeFlags: string[] }>;
  return values[program]?.nodeFlags ?? [];
}

/** The one value without a default. Later values files and `--set` replace it. */
export const IMAGE = ['-f', join(import.meta.dirname, 'chart/image.yaml')];

/** Runs helm to its end (at most 120 s) and returns what it wrote. Throws with its error output. */
export async function helm({ assets, env }: Pick<Connection, 'assets' | 'env'>, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(assets.helm, args, { env, timeout: 120_000, maxBuffer: 2 ** 26 });
  return stdout;
}

/** The chart's objects, with further arguments such as `--set`, `logLevel=debug`. */
export async function renderChart(tools: Pick<Connection, 'assets' | 'env'>, ...args: string[]): Promise<Rendered[]> {
  const text = await helm(tools, 'template', 'brupop', chartDir, '--namespace', releaseNamespace, ...IMAGE, ...args);
  return parseAllDocuments(text)
    .map((document) => document.toJS() as Rendered | null)
    .filter((object) => object !== null);
}

export function find(objects: readonly Rendered[], kind: string, name: string): Rendered {
  const found = objects.find((object) => object.kind === kind && object.metadata.name === name);
  if (found === undefined) throw new Error(`the chart has no ${kind} ${name}`);
  return found;
}

/** The pod template of a workload and its one container. */
export function podOf(workload: Rendered): {
  labels: Record<string, string>;
  annotations: Record<string, string>;
  pod: V1PodSpec;
  container: V1Container;
} {
  const template = workload.spec?.['template'] as {
    metadata: { labels: Record<string, string>; annotations: Record<string, string> };
    spec: V1PodSpec;
  };
  const [container, ...others] = template.spec.containers;
  if (container === undefined || others.length > 0) throw new Error(`${workload.metadata.name}: not one container`);
  return { ...template.metadata, pod: template.spec, container };
}
