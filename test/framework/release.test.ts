import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { RELEASE } from '../../packages/shared/src/api/release.ts';
import {
  helm3Versions,
  kstatusVersions,
  modules,
  monitoringVersions,
  oldestKubernetes,
  releaseVersions,
  versions,
} from './control-plane/versions.ts';
import { sectionOf } from './markdown.ts';

const root = join(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(join(root, file), 'utf8');
const minorOf = (version: string): string => /^v?(?<minor>\d+\.\d+)/u.exec(version)?.groups?.['minor'] ?? '';

describe('the oldest supported Kubernetes', () => {
  const minor = minorOf(oldestKubernetes);

  it.each([
    ['README.md', `You need Kubernetes ${minor} or newer`],
    ['charts/bottlerocket-update-operator/Chart.yaml', `kubeVersion: '>= ${minor}.0-0'`],
    ['docs/support.md', `Kubernetes ${minor} is the oldest supported version`],
    ['docs/support.md', ` on ${oldestKubernetes.slice(1)}`],
    ['docs/adr/0035-the-oldest-kubernetes.md', `# 35. The oldest Kubernetes is ${minor}`],
  ])('%s says "%s"', (file, text) => {
    expect(read(file)).toContain(text);
  });

  it('is what `make compat` builds', () => {
    const module = read('test/framework/control-plane/modules/oldest-kubernetes/go.mod');
    expect(module).toContain(`require k8s.io/kubernetes ${oldestKubernetes}\n`);
    const staged = [...module.matchAll(/ => k8s\.io\/\S+ (?<version>\S+)/gu)].map(({ groups }) => groups?.['version']);
    expect(new Set(staged)).toEqual(new Set([oldestKubernetes.replace('v1.', 'v0.')]));
  });

  it('and the tested one are in the support matrix, and no other is called tested', () => {
    const matrix = sectionOf(read('docs/support.md'), 'Kubernetes');
    const rows = [...matrix.matchAll(/^\| (?<minors>\d.*?) +\| (?<status>\w+): /gmu)].map(({ groups }) => groups);
    expect(rows.map((row) => row?.['minors'])).toContain(minor);
    const tested = rows.filter((row) => row?.['status'] === 'Tested').map((row) => row?.['minors'] ?? '');
    expect(tested[0]).toBe(minorOf(versions.kubernetes));
    expect(tested.slice(1).filter((minors) => minors !== minor)).toEqual([]);
  });
});

describe('the Dockerfile', () => {
  const dockerfile = read('Dockerfile');

  it('builds with a base that is pinned by its digest, and has the Node.js of package.json', () => {
    const { devDependencies } = JSON.parse(read('package.json')) as { devDependencies: Record<string, string> };
    const [, base = ''] = /^ARG BASE_IMAGE=(.+)$/mu.exec(dockerfile) ?? [];
    expect(base).toMatch(/^node:[\w.-]+@sha256:[0-9a-f]{64}$/u);
    expect(base.startsWith(`node:${devDependencies['node']}-`)).toBe(true);
    const stages = [...dockerfile.matchAll(/^FROM (?:--platform=\S+ )?(?<from>\S+)/gmu)];
    expect(stages.map(({ groups }) => groups?.['from'])).toEqual(['${BASE_IMAGE}', '${BASE_IMAGE}', 'scratch']);
  });

  it('makes an image whose user is not root', () => {
    expect(/^USER (?<user>.+)$/mu.exec(dockerfile)?.groups?.['user']).toBe('65532:65532');
  });

  it('runs a program that the tests of the image find in it', () => {
    expect(/^ENTRYPOINT (?<words>.+)$/mu.exec(dockerfile)?.groups?.['words']).toBe('["/usr/bin/node"]');
    expect(read('test/integration/image/image.test.ts')).toContain("'usr/bin/node'");
  });
});

describe('the dev container', () => {
  const dockerfile = read('.devcontainer/Dockerfile');

  it('is made of the base of the image', () => {
    const [, base] = /^ARG BASE_IMAGE=(.+)$/mu.exec(read('Dockerfile')) ?? [];
    expect(/^FROM (?<base>.+)$/mu.exec(dockerfile)?.groups?.['base']).toBe(base);
  });

  it('has a Go that is new enough for everything that is built with it', () => {
    const [, go = ''] = /^ARG GO=(.+)$/mu.exec(dockerfile) ?? [];
    const needed = modules.map((module) => {
      const file = read(`test/framework/control-plane/modules/${module}/go.mod`);
      return /^go (?<version>.+)$/mu.exec(file)?.groups?.['version'] ?? '';
    });
    expect(needed.filter((version) => go.localeCompare(version, 'en', { numeric: true }) < 0)).toEqual([]);
  });
});

it('Renovate finds every version of the test control plane, and those of Go and cosign', () => {
  const { customManagers } = JSON.parse(read('.github/renovate.json')) as {
    customManagers: { managerFilePatterns: [string]; matchStrings: [string] }[];
  };
  const files = [
    'test/framework/control-plane/versions.ts',
    '.devcontainer/Dockerfile',
    '.github/workflows/release.yaml',
  ];
  const found = customManagers.flatMap(({ managerFilePatterns: [pattern], matchStrings: [text] }) =>
    files
      .filter((file) => new RegExp(pattern.slice(1, -1), 'u').test(file))
      .flatMap((file) => [...read(file).matchAll(new RegExp(text, 'gu'))])
      .map(({ groups }) => groups?.['depName'] ?? 'go'),
  );
  const all = { ...versions, ...monitoringVersions, ...helm3Versions, ...kstatusVersions, ...releaseVersions };
  expect(found.toSorted()).toEqual([...Object.keys(all), 'go', 'github.com/sigstore/cosign/v3'].toSorted());
});

it('the version is the same in the chart, in every package, and in what agents send', () => {
  const chart = parse(read('charts/bottlerocket-update-operator/Chart.yaml')) as {
    version: string;
    appVersion: string;
  };
  const packages = ['.', ...readdirSync(join(root, 'packages')).map((name) => `packages/${name}`)];
  const found = packages.map((path) => (JSON.parse(read(`${path}/package.json`)) as { version: string }).version);
  expect(new Set([...found, RELEASE, chart.appVersion])).toEqual(new Set([chart.version]));
});

it('the changelog begins with what is not released', () => {
  const headings = [...read('CHANGELOG.md').matchAll(/^## (?<heading>.+)$/gmu)].map(
    ({ groups }) => groups?.['heading'],
  );
  expect(headings[0]).toBe('[Unreleased]');
  expect(
    headings.slice(1).filter((heading) => !/^\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}$/u.test(heading ?? '')),
  ).toEqual([]);
});
