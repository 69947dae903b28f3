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
    if (!wanted.every((name) => names.includes(`${name}.`)))
      throw new Error(`expected ${wanted.join()}, found ${names}`);
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

/** How many of the objects a server-side dry run with strict validation accepts, now or before. */
async function accept(objects: readonly string[]): Promise<number> {
  const unknown = objects.filter((text) => !accepted.has(text));
  if (unknown.length > 0) {
    const file = join(folder, 'objects.yaml');
    writeFileSync(file, unknown.join('\n---\n'));
    const apply = ['apply', '--server-side', '--dry-run=server', '--validate=strict'];
    // The account of a pod is created soon after its namespace.
    const answer = await eventually(async () => await kubectl(...apply, '-f', file), { limitMs: 5_000 });
    if (answer.match(/serverside-applied \(server dry run\)$/gmu)?.length !== unknown.length) return 0;
    for (const one of unknown) accepted.add(one);
  }
  return objects.length;
}

const sets = Object.entries(optionSets);
const [valid, invalid] = [sets.filter(([, { refused }]) => !refused), sets.filter(([, { refused }]) => refused)];

it('there are more than 60 sets', () => expect(sets.length).toBeGreaterThan(60));

it.each(valid)('%s: the API server accepts every object, and knows every field', async (_, set) => {
  const { shows, hides } = set;
  const objects = objectsOf(await render(set));
  const isShown = shows === undefined || objects.some((text) => shows.test(text));
  const isHidden = hides === undefined || !objects.some((text) => hides.test(text));
  expect({ isShown, isHidden }).toEqual({ isShown: true, isHidden: true });
  expect(await accept(objects)).toBe(objects.length);
});

it.each(invalid)('%s: Helm refuses it and says why', async (_, set) => {
  await expect(render(set)).rejects.toThrow(set.refused);
});
