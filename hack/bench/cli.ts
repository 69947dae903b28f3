/** How long `kubectl brupop status` takes from its start to its end with 1,000 nodes, and the most memory that it uses. */
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { startControlPlane } from '../../test/framework/control-plane/start.ts';
import { installForController } from '../../test/framework/controller/installation.ts';
import { configure } from '../../test/framework/controller/configuration.ts';
import { createNodes } from './fleet-nodes.ts';
import { median } from './timeline.ts';

const NODES = 1_000;
const RUNS = 5;
const GOAL_MS = 2_000;
const root = join(import.meta.dirname, '../..');
/** Prints the largest resident memory, in KiB, at the end. */
const PEAK = "process.on('exit', () => process.stderr.write(String(process.resourceUsage().maxRSS)))";

type Print = (line: string) => void;

export async function measureCli(print: Print, fail: Print): Promise<void> {
  print(`\nkubectl brupop status with ${NODES} nodes`);
  execFileSync(process.execPath, [join(root, 'scripts/build-cli.ts')], { cwd: root });
  const cluster = await startControlPlane({ renewsLeases: false });
  try {
    await installForController(cluster);
    await configure(cluster, {});
    await createNodes(cluster, NODES);
    const runs = Array.from({ length: RUNS }, () => measured(cluster.kubeconfigPath));
    const ms = median(runs.map((run) => run.ms));
    print(`  ${ms.toFixed(0).padStart(6)}  ms from start to end, median of ${RUNS}`);
    print(
      `  ${Math.max(...runs.map((run) => run.mib))
        .toFixed(1)
        .padStart(6)}  MiB resident at most`,
    );
    if (ms > GOAL_MS) fail(`kubectl brupop status may take ${GOAL_MS} ms`);
  } finally {
    await cluster.stop();
  }
}

function measured(kubeconfig: string): { ms: number; mib: number } {
  const importing = `data:text/javascript,${encodeURIComponent(PEAK)}`;
  const args = ['--import', importing, join(root, 'dist/kubectl-brupop'), 'status'];
  const env = { ...process.env, KUBECONFIG: kubeconfig };
  const startedAt = performance.now();
  const { status, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8', maxBuffer: 2 ** 26 });
  const ms = performance.now() - startedAt;
  if (status !== 0) throw new Error(`kubectl brupop status ended with ${status}: ${stderr}`);
  return { ms, mib: Number(stderr) / 1024 };
}
