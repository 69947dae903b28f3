import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import { installCertManagerCrds } from '../../framework/chart/cert-manager.ts';
import { monitoringCrds } from '../../framework/chart/monitoring-crds.ts';
import { type OptionSet, optionSets } from '../../framework/chart/option-sets.ts';
import { helm, IMAGE, releaseNamespace } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { chartDir } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const NAMESPACES = [releaseNamespace, 'brupop-agents', 'update-checks', 'shop', 'web'];

let cluster: ControlPlane;
let folder = '';
/** Objects that the API server has accepted: most sets have most of them in common. */
const accepted = new Set<string>();

beforeAll(async () => {
  cluster = await startControlPlane();
  folder = mkdtempSync(join(tmpdir(), 'brupop-option-sets-'));
  for (const name of NAMESPACES) await cluster.api.create('/api/v1/namespaces', { metadata: { name } });
  for (const name of ['a', 'b', 'c'])
    await cluster.api.create('/apis/node.k8s.io/v1/runtimeclasses', { metadata: { name }, handler: 'runc' });
  await installCertManagerCrds(cluster);
  const crds = join(folder, 'monitoring.json');
  writeFileSync(crds, JSON.stringify(monitoringCrds));
  await kubectl('apply', '-f', crds);
  await kubectl('wait', '--for=condition=Established', '--timeout=20s', '-f', crds);
  // Discovery of definitions that were just created lags.
  const wanted = ['servicemonitors', 'podmonitors', 'prometheusrules', 'certificates', 'issuers'];
  await eventually(async () => {
    const names = await kubectl('api-resources', '--output=name', '--cached=false');
    expect(wanted.filter((name) => !names.includes(`${name}.`))).toEqual([]);
  });
});

afterAll(async () => {
  await cluster.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function kubectl(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(cluster.assets.kubectl, args, { env: cluster.env, timeout: 60_000 });
  return stdout;
}

async function render({ values }: OptionSet): Promise<string> {
  const file = join(folder, 'values.yaml');
  writeFileSync(file, values);
  return await helm(cluster, 'template', 'brupop', chartDir, '--namespace', releaseNamespace, ...IMAGE, '-f', file);
}

function objectsOf(rendered: string): string[] {
  return rendered.split(/^---$/mu).filter((text) => /^kind: /mu.test(text));
}

/** A server-side dry run, with strict validation, of what was not accepted before. */
async function dryRun(rendered: string): Promise<void> {
  const documents = objectsOf(rendered).filter((text) => !accepted.has(text));
  if (documents.length === 0) return;
  const file = join(folder, 'objects.yaml');
  writeFileSync(file, documents.join('\n---\n'));
  const apply = ['apply', '--server-side', '--dry-run=server', '--validate=strict'];
  // The account of a pod is created soon after its namespace.
  const answer = await eventually(async () => await kubectl(...apply, '-f', file), { limitMs: 5_000 });
  expect(answer.match(/serverside-applied \(server dry run\)$/gmu)).toHaveLength(documents.length);
  for (const document of documents) accepted.add(document);
}

const sets = Object.entries(optionSets);
const [valid, invalid] = [sets.filter(([, { refused }]) => !refused), sets.filter(([, { refused }]) => refused)];

it('there are more than 60 sets', () => expect(sets.length).toBeGreaterThan(60));

it.each(valid)('%s: the API server accepts every object, and knows every field', async (_, set) => {
  const rendered = await render(set);
  const { shows } = set;
  if (shows !== undefined) expect(objectsOf(rendered).filter((text) => shows.test(text))).not.toEqual([]);
  if (set.hides !== undefined) expect(rendered).not.toMatch(set.hides);
  await dryRun(rendered);
});

it.each(invalid)('%s: Helm refuses it and says why', async (_, set) => {
  await expect(render(set)).rejects.toThrow(set.refused);
});
