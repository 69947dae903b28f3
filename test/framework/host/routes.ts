import { createHash } from 'node:crypto';
import type { Faults } from './faults.ts';
import { type Answer, json, type RequestHead, text } from './http-message.ts';
import { settingsRoutes } from './settings-routes.ts';
import type { Metadata } from './metadata.ts';
import type { Settings } from './settings.ts';
import type { CommandType } from './status-file.ts';
import type { Job, UpdateModel } from './update-model.ts';
import { isVersion } from './versions.ts';

/** What the routes act on. */
export interface RouteContext {
  readonly model: UpdateModel;
  readonly settings: Settings;
  readonly metadata: Metadata;
  readonly faults: Faults;
  /** Runs a command that was started to its end, in the background. */
  run(job: Job): void;
  /**
   * Applies these live settings, by default all, in the background; an answer when the applier
   * cannot be started.
   */
  applySettings(keys?: readonly string[]): Answer | undefined;
  reboot(): Promise<Answer>;
}

export type Route = (head: RequestHead, body: string) => Answer | Promise<Answer>;

const OS_RELEASE_FAILED = "Unable to get OS release data: Unable to load release data from file '/usr/lib/os-release'";

function osRelease({ model, faults }: RouteContext): Record<string, string> | Answer {
  const { osReleaseVersion } = faults.values;
  if (osReleaseVersion === null) return text(500, `${OS_RELEASE_FAILED}: missing value for field version_id`);
  const version = osReleaseVersion ?? model.partitions.running;
  if (!isVersion(version)) {
    const part = version.split('.').length === 1 ? 'major' : version.split('.').length === 2 ? 'minor' : 'patch';
    return text(500, `${OS_RELEASE_FAILED}: unexpected end of input while parsing ${part} version number`);
  }
  return {
    arch: model.arch,
    build_id: createHash('sha256').update(version).digest('hex').slice(0, 8),
    pretty_name: `Bottlerocket OS ${version} (${model.variant})`,
    variant_id: model.variant,
    version_id: version,
  };
}

function getOs(context: RouteContext, { query }: RequestHead): Answer {
  const prefix = query.get('prefix');
  if (prefix === '') return text(400, "Input 'prefix' cannot be empty");
  const release = osRelease(context);
  if (typeof release['status'] === 'number') return release as Answer;
  const wanted = prefix === null || prefix.startsWith('os') ? (prefix ?? 'os.') : `os.${prefix}`;
  return json(Object.fromEntries(Object.entries(release).filter(([field]) => `os.${field}`.startsWith(wanted))));
}

function getStatus({ model }: RouteContext): Answer {
  const status = model.readStatus();
  return 'text' in status ? text(status.status, status.text) : json(status);
}

function command(context: RouteContext, type: CommandType): Answer {
  const fault = context.faults.values[type];
  const outcome = context.model.dispatch(type, fault?.times === 0 ? {} : fault);
  if ('text' in outcome) return text(outcome.status, outcome.text);
  context.faults.take(type);
  context.run(outcome);
  return { status: 204 };
}

function exec({ method }: RequestHead): Answer {
  if (method !== 'GET') return { status: 405, allow: 'GET' };
  return { status: 400, reason: 'No WebSocket Upgrade header found' };
}

/**
 * All routes by method and path; whatever is not here is a 404 with an empty body, wrong methods
 * too.
 */
export function routes(context: RouteContext): ReadonlyMap<string, Route> {
  return new Map<string, Route>([
    ['GET /os', (head) => getOs(context, head)],
    ['GET /updates/status', () => getStatus(context)],
    ['POST /actions/refresh-updates', () => command(context, 'refresh')],
    ['POST /actions/prepare-update', () => command(context, 'prepare')],
    ['POST /actions/activate-update', () => command(context, 'activate')],
    ['POST /actions/deactivate-update', () => command(context, 'deactivate')],
    ['POST /actions/reboot', () => context.reboot()],
    ...settingsRoutes(context),
  ]);
}

/** Finds the route and answers. */
export async function answerRequest(
  table: ReadonlyMap<string, Route>,
  head: RequestHead,
  body: string,
): Promise<Answer> {
  if (head.path === '/exec') return exec(head);
  const route = table.get(`${head.method} ${head.path}`);
  return route === undefined ? text(404) : await route(head, body);
}
