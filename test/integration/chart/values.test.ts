import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { V1Role } from '@kubernetes/client-node';
import { parseAllDocuments, stringify } from 'yaml';
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

it('a chart that has this one as a part may have a condition for it', async () => {
  expect(await renderChart(cluster, '--set', 'enabled=true')).toEqual(await renderChart(cluster));
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
