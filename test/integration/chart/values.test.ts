import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { V1Role } from '@kubernetes/client-node';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { AGENT } from '@brupop/shared/api/names';
import { RELEASE } from '@brupop/shared/api/release';
import { wrongValues } from '../../framework/chart/wrong-values.ts';
import { find, helm, IMAGE, podOf, renderChart, type Rendered } from '../../framework/chart.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { chartDir } from '../../framework/crds.ts';

const cluster = connectSharedControlPlane();
const folder = mkdtempSync(join(tmpdir(), 'brupop-values-'));

afterAll(async () => {
  await cluster.close();
  rmSync(folder, { recursive: true, force: true });
});

describe('a values file is rejected that has', () => {
  it.each(Object.entries(wrongValues))('%s, and the message names it', async (_, [text, named]) => {
    const file = join(folder, 'values.yaml');
    writeFileSync(file, text);
    const message = await renderChart(cluster, '-f', file).then(
      () => 'accepted',
      (error: unknown) => String(error),
    );
    expect(message).toContain("don't meet the specifications of the schema");
    expect(message).toContain(named);
  });
});

describe('of what the chart has in a pod', () => {
  type Component = 'agent' | 'apiserver' | 'controller';
  type Extra = 'extraEnv' | 'extraVolumes' | 'extraVolumeMounts';
  type Render = 'default' | 'everything';

  const extras: Readonly<Record<Extra, (name: string) => object>> = {
    extraEnv: (name) => ({ name, value: 'a' }),
    extraVolumes: (name) => ({ name, emptyDir: {} }),
    extraVolumeMounts: (mountPath) => ({ name: 'extra', mountPath }),
  };
  const components = ['agent', 'apiserver', 'controller'] as const;
  const pairs = components.flatMap((component) =>
    (['extraEnv', 'extraVolumes', 'extraVolumeMounts'] as const).map((extra) => [component, extra] as const),
  );
  const fileOf = (render: Render, name: string): string => join(import.meta.dirname, 'renders', render, name);
  const ofUsers = /^(?:EXTRA_.*|extra|\/etc\/extra|\/tmp)$/u;
  const { definitions } = parse(readFileSync(join(chartDir, 'values.schema.json'), 'utf8')) as {
    definitions: { extraEnv: { items: { properties: { name: { not: { enum: string[] } } } } } };
  };
  const reserved = definitions.extraEnv.items.properties.name.not.enum;

  /** The names or paths that the chart has in the pod of a component, without variables that no values may have. */
  function ofChart(render: Render, component: Component, extra: Extra): string[] {
    const documents = parseAllDocuments(readFileSync(fileOf(render, 'render.yaml'), 'utf8'));
    const objects = documents.flatMap((one) => (one.toJS() as Rendered | null) ?? []);
    return namesIn(objects, component, extra).filter((name) => !ofUsers.test(name) && !reserved.includes(name));
  }

  function namesIn(objects: readonly Rendered[], component: Component, extra: Extra): string[] {
    const workload = find(objects, component === 'agent' ? 'DaemonSet' : 'Deployment', `brupop-${component}`);
    const { pod, container } = podOf(workload);
    if (extra === 'extraEnv') return container.env?.map(({ name }) => name) ?? [];
    if (extra === 'extraVolumes') return pod.volumes?.map(({ name }) => name) ?? [];
    return container.volumeMounts?.map(({ mountPath }) => mountPath) ?? [];
  }

  async function renderWith(
    render: Render,
    [component, extra]: readonly [Component, Extra],
    names: string[],
  ): Promise<Rendered[]> {
    const file = join(folder, 'extras.yaml');
    writeFileSync(file, stringify({ [component]: { [extra]: names.map(extras[extra]) } }));
    return await renderChart(cluster, '-f', fileOf(render, 'values.yaml'), '-f', file);
  }

  it.each(pairs.flatMap((pair) => ofChart('everything', ...pair).map((name) => [...pair, name] as const)))(
    '%s.%s may not have %s',
    async (component, extra, name) => {
      const rendered = renderWith('everything', [component, extra], [name]);
      await expect(rendered).rejects.toThrow(
        new RegExp(`${component}\\.${extra}: expected another (?:name|mountPath) than .*, found ${name}\n`, 'u'),
      );
    },
  );

  it.each(pairs)('%s.%s may have all that only other pods have, or that other values add', async (component, extra) => {
    const everywhere = new Set(components.flatMap((one) => ofChart('everything', one, extra)));
    const ownNames = ofChart('default', component, extra);
    const names = [...everywhere].filter((name) => !ownNames.includes(name));
    expect(names.length).toBeGreaterThan(2);
    const objects = await renderWith('default', [component, extra], names);
    const found = namesIn(objects, component, extra);
    expect(found).toEqual(expect.arrayContaining(names));
    expect(new Set(found).size).toBe(found.length);
  });
});

it('a chart that has this one as a part may have a condition for it', async () => {
  expect(await renderChart(cluster, '--set', 'enabled=true')).toEqual(await renderChart(cluster));
});

it('a chart that has this one as a part may call it otherwise: what selects by the labels still finds all of it', async () => {
  const [name, around] = ['bottlerocket-update-operator', join(folder, 'around')];
  cpSync(chartDir, join(around, 'charts', name), { recursive: true });
  const dependencies = [{ name, alias: 'updates', version: RELEASE }];
  writeFileSync(
    join(around, 'Chart.yaml'),
    stringify({ apiVersion: 'v2', name: 'platform', version: '1.0.0', dependencies }),
  );
  const text = await helm(cluster, 'template', 'platform', around, '--set', 'updates.image.repository=a');
  const objects = parseAllDocuments(text).flatMap((one) => (one.toJS() as Rendered | null) ?? []);
  const ofCharts = objects.filter(({ kind }) => kind !== 'CustomResourceDefinition');
  const labels = ['app.kubernetes.io/name', 'app.kubernetes.io/part-of'];
  expect(ofCharts.length).toBeGreaterThan(30);
  const found = ofCharts.flatMap(({ metadata }) => labels.map((label) => metadata.labels?.[label]));
  expect(new Set(found)).toEqual(new Set([name]));
});

it('a namespace and a release of digits alone stay texts', async () => {
  const names = 'tls.secretName=1,tls.caConfigMapName=2,checks.namespace=3,checks.serviceAccount.name=4';
  const targets = [{ kind: 'Deployment', namespace: '6', name: 'a' }];
  const lists = `recovery.namespaces=["5"],dependents.targets=${JSON.stringify(targets)}`;
  const values = ['--set-string', names, '--set', 'checks.enabled=true', '--set-json', lists];
  const args = ['template', '2024', chartDir, ...IMAGE, '--namespace', '2025', ...values];
  const objects = parseAllDocuments(await helm(cluster, ...args)).flatMap(
    (one) => (one.toJS() as Rendered | null) ?? [],
  );
  const found = (read: (one: Rendered['metadata']) => unknown): Set<unknown> =>
    new Set(objects.map(({ metadata }) => read(metadata)));
  const namespaces = ['2025', '3', '5', '6'];
  expect(found(({ namespace }) => namespace)).toEqual(
    new Set([undefined, 'default', 'kube-node-lease', ...namespaces]),
  );
  const namesIn = (role: string): string[] =>
    (find(objects, 'Role', role) as unknown as V1Role).rules?.flatMap(({ resourceNames = [] }) => resourceNames) ?? [];
  expect(namesIn('brupop-controller-agents')).toEqual(['brupop-agent', '2']);
  expect(namesIn('brupop-controller-certificate')).toEqual(['1', 'brupop-ca']);
  expect(found(({ labels }) => labels?.['app.kubernetes.io/instance'])).toEqual(new Set([undefined, '2024']));
});

interface GitOpsObject {
  readonly kind: string;
  readonly spec?: {
    readonly values?: object;
    readonly source?: { readonly helm?: { readonly valuesObject?: object } };
  };
}

it.each(['Application', 'HelmRelease'])('the %s in docs/gitops.md has values that install the image', async (kind) => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/gitops.md'), 'utf8');
  const blocks = [...page.matchAll(/^```yaml\n(?<block>.*?)^```$/gmsu)].map(({ groups }) => groups?.['block'] ?? '');
  const objects = blocks.flatMap((block) => parseAllDocuments(block).map((one) => one.toJS() as GitOpsObject));
  const { spec } = objects.find((object) => object.kind === kind) ?? {};
  const file = join(folder, 'gitops.yaml');
  writeFileSync(file, stringify(spec?.values ?? spec?.source?.helm?.valuesObject));
  const rendered = await renderChart(cluster, '-f', file);
  const { image } = podOf(find(rendered, 'DaemonSet', AGENT)).container;
  expect(image).toBe(`registry.example.com/bottlerocket-update-operator:${RELEASE}`);
});
