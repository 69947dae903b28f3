/** What a user does after `scripts/takeover.sh prepare`: the further steps of "During" in docs/takeover.md. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { CONFIG_KIND, CONFIG_NAME, CONFIG_VERSION, GROUP } from '../../../packages/shared/src/api/names.ts';
import { commandsOf, runCommands, splitCommands } from '../commands.ts';
import type { Connection } from '../control-plane/connection.ts';
import { eventually } from '../eventually.ts';

const CONFIG_FILE = 'brupop-config.yaml';

/** No window is open but on 29 February. */
export const CLOSED = { windows: [{ schedule: '0 2 29 2 *', duration: '4h' }] };

/**
 * Runs the commands of the page in their order, each as `adapt` returns it. The BrupopConfig has `spec`, and is written
 * into `folder`.
 */
export async function installAfterPrepare(
  cluster: Connection,
  folder: string,
  spec: BrupopConfigSpec = { maintenance: CLOSED },
  adapt = (command: string): string => command,
): Promise<void> {
  const file = join(folder, CONFIG_FILE);
  const config = { apiVersion: `${GROUP}/${CONFIG_VERSION}`, kind: CONFIG_KIND, metadata: { name: CONFIG_NAME }, spec };
  writeFileSync(file, JSON.stringify(config));
  const [, ...commands] = splitCommands(commandsOf('docs/takeover.md', 'During'));
  for (const command of commands) {
    const text = adapt(command.replace(CONFIG_FILE, file));
    const run = async (): Promise<string> => await runCommands(cluster, text);
    // The discovery of a new definition lags.
    await (text.includes(file) ? eventually(run) : run());
  }
}
