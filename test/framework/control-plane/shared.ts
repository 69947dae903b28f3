import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Connection, connectionTo, type Coordinates } from './connection.ts';
import { type ControlPlane, startControlPlane } from './start.ts';

const variable = 'BRUPOP_TEST_CONTROL_PLANE';

/**
 * Starts the control plane that all suites of a run share, and passes its address to processes
 * started from now on.
 */
export async function startSharedControlPlane(): Promise<ControlPlane> {
  const controlPlane = await startControlPlane();
  const { url, dir, caFile, tokens, assets, issuer } = controlPlane;
  const path = join(dir, 'coordinates.json');
  writeFileSync(path, JSON.stringify({ url, dir, caFile, tokens, assets, issuer } satisfies Coordinates), {
    mode: 0o600,
  });
  process.env[variable] = path;
  return controlPlane;
}

/**
 * Connects to the control plane that the test run has started; close the connection in `afterAll`.
 * Suites that stop parts of it, or that look at cluster-wide objects, start one of their own with
 * `startControlPlane`. Throws outside of a test run.
 */
export function connectSharedControlPlane(): Connection {
  const path = process.env[variable];
  if (path === undefined)
    throw new Error(`no shared control plane: ${variable} is unset; run the suite in the project integration or fleet`);
  return connectionTo(JSON.parse(readFileSync(path, 'utf8')) as Coordinates);
}
