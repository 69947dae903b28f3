import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import { RELEASE } from '../../../packages/shared/src/api/release.ts';
import { monitoringCrds } from '../../framework/chart/monitoring-crds.ts';
import { helm, releaseNamespace } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { chartDir } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

/** In renders/everything; users create them. */
const NAMESPACES = ['brupop-agents', 'update-checks', 'shop', 'web'];
const renders = join(import.meta.dirname, 'renders');
const names = readdirSync(renders).toSorted();
const valuesOf = (name: string): string => join(renders, name, 'values.yaml');
const update = process.env['UPDATE_RENDERS'] === '1';
/** In the committed renders, so that a release does not change them. */
const VERSION = '0.1.0';
const HOW = "If the difference is meant: UPDATE_RENDERS=1 make test TESTS='--projects integration renders'";

let cluster: ControlPlane;
let folder = '';

beforeAll(async () => {
  cluster = await startControlPlane();
  folder = mkdtempSync(join(tmpdir(), 'brupop-renders-'));
});

afterAll(async () => {
  await cluster.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function render(name: string): Promise<string> {
  return await helm(cluster, 'template', 'brupop', chartDir, '--namespace', releaseNamespace, '-f', valuesOf(name));
}

/** Without the definitions and dashboards, which are the same with all values and have tests of their own. */
function withoutLongTexts(rendered: string): string {
  const documents = rendered.split(/^(?=---$)/mu);
  return documents.filter((text) => !/^# Source: [^/]+\/templates\/(?:crds|metrics\/dashboards)/mu.test(text)).join('');
}

async function kubectl(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(cluster.assets.kubectl, args, { env: cluster.env, timeout: 60_000 });
  return stdout;
}

describe.each(names)('the chart with the values of renders/%s', (name) => {
  it('passes helm lint --strict', async () => {
    expect(await helm(cluster, 'lint', '--strict', chartDir, '-f', valuesOf(name))).toContain('0 chart(s) failed');
  });

  it('renders as committed', async () => {
    const expected = join(renders, name, 'render.yaml');
    const found = withoutLongTexts(await render(name)).replaceAll(RELEASE, VERSION);
    if (update) writeFileSync(expected, found);
    expect({ HOW, render: found }).toEqual({ HOW, render: readFileSync(expected, 'utf8') });
  });

  it('names no cluster domain', async () => {
    expect(await render(name)).not.toMatch(/\.svc\.|cluster\.local/u);
  });
});

describe('the API server', () => {
  beforeAll(async () => {
    for (const name of [releaseNamespace, ...NAMESPACES])
      await cluster.api.create('/api/v1/namespaces', { metadata: { name } });
    const runtimeClass = { metadata: { name: 'sandboxed' }, handler: 'runc' };
    await cluster.api.create('/apis/node.k8s.io/v1/runtimeclasses', runtimeClass);
    const crds = join(folder, 'monitoring.json');
    writeFileSync(crds, JSON.stringify(monitoringCrds));
    await kubectl('apply', '-f', crds);
    await kubectl('wait', '--for=condition=Established', '--timeout=20s', '-f', crds);
  });

  it.each(names)('accepts every object of renders/%s, and knows every field', async (name) => {
    const file = join(folder, `${name}.yaml`);
    const rendered = await render(name);
    writeFileSync(file, rendered);
    const apply = ['apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', file];
    // Discovery of the definitions that were just created may lag.
    const answer = await eventually(async () => await kubectl(...apply));
    const objects = rendered.match(/^kind: /gmu) ?? [];
    expect(answer.trim().split('\n')).toHaveLength(objects.length);
    expect(answer.match(/serverside-applied \(server dry run\)$/gmu)).toHaveLength(objects.length);
  });
});
