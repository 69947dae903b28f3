/** The workflows of .github, as far as they can be checked without an account. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { releaseCacheFolder } from '../../framework/control-plane/cache.ts';
import { obtainPrograms } from '../../framework/control-plane/obtain.ts';
import { type Job, readWorkflows, type Step, WORKFLOWS } from '../../framework/workflows.ts';

// Programs are built when they are first needed.
jest.setTimeout(600_000);

const root = join(import.meta.dirname, '../../..');
const workflows = readWorkflows();
const jobs: [string, Job][] = workflows.flatMap(({ file, jobs: of }) =>
  Object.entries(of).map(([name, job]): [string, Job] => [`${file} ${name}`, job]),
);
const steps: [string, Step][] = jobs.flatMap(([where, job]) =>
  job.steps.map((step): [string, Step] => [`${where}: ${step.name ?? step.uses}`, step]),
);
const scripts = steps.flatMap(([where, { run }]): [string, string][] => (run === undefined ? [] : [[where, run]]));
const text = (file: string): string => readFileSync(join(WORKFLOWS, file), 'utf8');

it('actionlint finds nothing; it runs shellcheck on the scripts where that is installed', async () => {
  const { actionlint } = await obtainPrograms({ wanted: ['actionlint'], cacheFolder: releaseCacheFolder() });
  const { status, stdout, stderr } = spawnSync(actionlint, ['-no-color'], { cwd: root, encoding: 'utf8' });
  expect({ status, output: stdout + stderr }).toEqual({ status: 0, output: '' });
});

it('a workflow for pull requests, one for each night and one for tags are there', () => {
  expect(workflows.map(({ file, on }) => [file, Object.keys(on)])).toEqual([
    ['ci.yaml', ['pull_request', 'push']],
    ['nightly.yaml', ['schedule', 'workflow_dispatch']],
    ['release.yaml', ['push']],
  ]);
});

it('actions are pinned by their commit, with the version, and have one each', () => {
  const used = workflows.flatMap(({ file }) => [...text(file).matchAll(/uses: *(?<action>.*)$/gmu)]);
  const found = used.map(({ groups }) => groups?.['action'] ?? '');
  expect(found.filter((action) => !/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/u.test(action))).toEqual([]);
  const distinct = [...new Set(found)];
  expect(new Set(distinct.map((action) => action.split('@')[0])).size).toBe(distinct.length);
});

it('workflows have no permission, and jobs list theirs; only the release may write', () => {
  expect(workflows.map(({ permissions }) => permissions)).toEqual(workflows.map(() => ({})));
  const granted = jobs.map(([where, { permissions = {} }]) => [
    where,
    Object.entries(permissions).flatMap(([name, access]) => (access === 'read' ? [] : [name])),
  ]);
  expect(Object.fromEntries(granted)).toEqual({
    'ci.yaml ci': [],
    'nightly.yaml nightly': [],
    'release.yaml test': [],
    'release.yaml publish': ['packages', 'id-token', 'attestations'],
    'release.yaml announce': ['contents'],
  });
  expect(jobs.filter(([, { permissions }]) => permissions?.['contents'] === undefined)).toEqual([]);
});

it('nothing that is checked out keeps the credentials, and no script has an expression in it', () => {
  const checkouts = steps.filter(([, { uses }]) => uses?.startsWith('actions/checkout@'));
  expect(checkouts.map(([, step]) => step.with?.['persist-credentials'])).toEqual(jobs.map(() => false));
  expect(scripts.filter(([, script]) => script.includes('${{'))).toEqual([]);
});

it('the registry and its owner are variables: no workflow names a host', () => {
  const hosts = workflows.flatMap(({ file }) => text(file).match(/\b[\w-]+\.(?:io|com|dev|org|net)\b.*/gu) ?? []);
  expect(hosts.filter((line) => !line.startsWith('github.com/sigstore/cosign/'))).toEqual([]);
});

it('no cache is used in the release', () => {
  expect(text('release.yaml')).not.toContain('actions/cache@');
});

it('every target of make that a workflow runs exists', () => {
  const targets = new Set(jobs.flatMap(([, { strategy }]) => strategy?.matrix.target ?? []));
  const makefile = readFileSync(join(root, 'Makefile'), 'utf8');
  expect([...targets].filter((target) => !makefile.includes(`\n${target}: `))).toEqual([]);
});

it.each(scripts)('%s: is a script that bash can read', (_, script) => {
  expect(spawnSync('bash', ['-n'], { input: script, encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
});

it('a runner gets a Go that is new enough for every module, and user namespaces', () => {
  const folder = mkdtempSync(join(tmpdir(), 'brupop-runner-'));
  try {
    const path = join(folder, 'path');
    writeFileSync(join(folder, 'sudo'), '#!/bin/sh\necho "$@"\n', { mode: 0o755 });
    const env = { ...process.env, GITHUB_PATH: path, PATH: `${folder}:${process.env['PATH']}` };
    const { status, stdout } = spawnSync(join(root, '.github/prepare-runner'), { env, encoding: 'utf8' });
    expect({ status, stdout }).toEqual({
      status: 0,
      stdout: 'sysctl --ignore --write kernel.apparmor_restrict_unprivileged_userns=0\n',
    });
    const go = join(readFileSync(path, 'utf8').trim(), 'go');
    for (const module of ['prometheus', 'kstatus']) {
      const cwd = join(root, 'test/framework/control-plane/modules', module);
      const options = { cwd, encoding: 'utf8', env: { ...process.env, GOTOOLCHAIN: 'local' } } as const;
      expect(spawnSync(go, ['list', '-m'], options).status).toBe(0);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
