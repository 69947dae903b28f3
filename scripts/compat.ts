/**
 * Runs the tests of the chart with its CRDs, and a rollout of a fleet, on the oldest Kubernetes that
 * the operator supports: with its kube-apiserver, kube-controller-manager and kube-scheduler. They
 * are downloaded, or built where that is not possible, once (test/framework/control-plane).
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { obtainPrograms } from '../test/framework/control-plane/obtain.ts';
import { oldestKubernetes } from '../test/framework/control-plane/versions.ts';

const TESTS = ['test/integration/chart', 'test/e2e/rollout.test.ts'];

try {
  const programs = await obtainPrograms({
    assetsFolder: '',
    kubernetes: oldestKubernetes,
    wanted: ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'],
  });
  const apiserver = programs['kube-apiserver'];
  const version = execFileSync(apiserver, ['--version'], { encoding: 'utf8', timeout: 30_000 }).trim();
  if (version !== `Kubernetes ${oldestKubernetes}`) {
    throw new Error(`${apiserver}: expected Kubernetes ${oldestKubernetes}, found ${version}`);
  }
  process.stdout.write(`The control plane of these tests is ${version}\n`);
  const { status } = spawnSync(process.execPath, ['scripts/test.ts', '--projects', 'integration,e2e', ...TESTS], {
    cwd: join(import.meta.dirname, '..'),
    env: { ...process.env, KUBEBUILDER_ASSETS: dirname(apiserver) },
    stdio: 'inherit',
  });
  process.exitCode = status ?? 1;
} catch (error) {
  process.stderr.write(`compat: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
