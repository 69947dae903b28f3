/** scripts/takeover.sh changes nothing in a cluster in which it could not be completed; kubectl is a stand-in. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
/** What the script runs beside kubectl and helm. */
const TOOLS = ['awk', 'bash', 'cat', 'date', 'dirname', 'grep', 'mkdir', 'mv', 'sed', 'sleep', 'sort', 'touch', 'tr'];

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'brupop-takeover-'));
  for (const tool of TOOLS) {
    const path = execFileSync('bash', ['-c', `type -P ${tool}`], { encoding: 'utf8' }).trim();
    symlinkSync(path, join(folder, tool));
  }
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A stand-in that records its calls, and answers with the first of `answers` whose pattern matches the arguments. */
function standIn(program: string, answers: Readonly<Record<string, string>>): void {
  const cases = Object.entries(answers).map(([pattern, answer]) => `  ${pattern}) printf '%s\\n' '${answer}' ;;`);
  const record = `printf '%s\\n' "$*" >>${join(folder, 'calls')}`;
  const lines = ['#!/usr/bin/env bash', record, 'case "$*" in', ...cases, 'esac'];
  writeFileSync(join(folder, program), lines.join('\n'), { mode: 0o755 });
}

function version(minor: string): string {
  return JSON.stringify({ major: '1', minor, emulationMinor: '20', gitVersion: `v1.${minor}` }, undefined, 2);
}

/** A cluster with the Rust operator. */
function cluster(minor: string, release: string): Readonly<Record<string, string>> {
  return {
    '*/version*': version(minor),
    '*"daemonset brupop-agent"*selector*': 'agent',
    '*"crd bottlerocketshadows"*meta.helm.sh/release-name*': release,
  };
}

function takeover(command: string, timeout = '0'): { status: number | null; stdout: string; stderr: string } {
  const args = ['scripts/takeover.sh', command, '--backup', join(folder, 'backup'), '--timeout', timeout];
  return spawnSync('bash', args, { cwd: root, env: { PATH: folder }, encoding: 'utf8' });
}

function changes(): string[] {
  const calls = readFileSync(join(folder, 'calls'), 'utf8').split('\n');
  return calls.filter((call) => /\b(?:annotate|apply|delete|label|patch|replace|scale|uninstall)\b/u.test(call));
}

describe.each(['check', 'prepare'])('%s', (command) => {
  it('ends where the chart would refuse the version of Kubernetes', () => {
    standIn('kubectl', cluster('30+', ''));
    const outcome = takeover(command);
    expect(outcome.stderr).toContain('this operator needs Kubernetes 1.31 or newer, found 1.30; nothing was changed');
    expect(outcome.status).toBe(1);
    expect(changes()).toEqual([]);
  });

  it('ends without helm where Helm has installed the Rust operator: its records would stay', () => {
    standIn('kubectl', cluster('33', 'brupop-crd'));
    const outcome = takeover(command);
    expect(outcome.stderr).toContain('run this where helm is installed; nothing was changed');
    expect(outcome.status).toBe(1);
    expect(changes()).toEqual([]);
  });

  it('needs no helm where Helm has not installed it', () => {
    standIn('kubectl', cluster('31', ''));
    expect(takeover(command)).toMatchObject({ status: 0, stderr: '' });
  });
});

it('changes nothing with a time limit that is no number of seconds', () => {
  standIn('kubectl', { ...cluster('33', ''), '*"deployment brupop-controller-deployment"*name': 'deployment.apps/a' });
  const outcome = takeover('prepare', '30m');
  expect(outcome.stderr).toBe('takeover: --timeout: expected seconds, such as 1800, found 30m\n');
  expect(outcome.status).toBe(1);
  expect(existsSync(join(folder, 'calls'))).toBe(false);
});

it('names the nodes that stay cordoned or excluded from load balancers after the takeover', () => {
  const label = 'node.kubernetes.io/exclude-from-external-load-balancers';
  standIn('kubectl', {
    ...cluster('33', ''),
    [`*'get nodes'*${label}=True*`]: 'excluded',
    [`*'get nodes'*.spec.unschedulable*`]: 'cordoned',
  });
  const { status, stdout } = takeover('prepare');
  expect(stdout).toContain('kubectl uncordon cordoned\n');
  expect(stdout).toContain(`kubectl label node excluded ${label}-\n`);
  expect(status).toBe(0);
});
