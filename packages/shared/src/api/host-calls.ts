/**
 * How often an agent has called the API of its host, for metrics of the apiserver, since nobody scrapes agents. The
 * counts travel in a header of calls that agents make anyway, as `GET /os=ok:12, POST /actions/reboot=answer:1`. They
 * are increments: an apiserver adds up what it gets, and the sum over all replicas is right. A count whose call fails is sent
 * again, so it may count twice.
 */

export const HOST_CALLS_HEADER = 'brupop-host-calls';

export const HOST_ROUTES = [
  'GET /os',
  'GET /updates/status',
  'POST /actions/refresh-updates',
  'POST /actions/prepare-update',
  'POST /actions/activate-update',
  'POST /actions/deactivate-update',
  'POST /actions/reboot',
  'GET /settings',
  'PATCH /settings',
  'GET /tx',
  'DELETE /tx',
  'POST /tx/commit_and_apply',
  'GET /metadata/affected-services',
  'GET /services',
] as const;

export const HOST_OUTCOMES = [
  'ok',
  'refused',
  'unanswered',
  'locked',
  'uninitialized',
  'unset',
  'unsupported',
  'unreadable',
  'answer',
] as const;
type HostOutcome = (typeof HOST_OUTCOMES)[number];

export interface HostCallCount {
  readonly route: string;
  readonly outcome: string;
  readonly count: number;
}

/** Counts in one header: few enough for the limit of headers. */
const MAX_COUNTS = 20;
/** A larger one does not come from an agent that looks at its host every few seconds. */
const MAX_COUNT = 10_000;

/** Counts the calls of one agent until they are sent. */
export class HostCalls {
  readonly #counts = new Map<string, number>();

  record(route: string, outcome: HostOutcome): void {
    this.#add(`${route}=${outcome}`, 1);
  }

  /** Takes out what the next call sends; empty: nothing. */
  take(): ReadonlyMap<string, number> {
    const taken = new Map([...this.#counts].slice(0, MAX_COUNTS));
    for (const key of taken.keys()) this.#counts.delete(key);
    return taken;
  }

  /** Adds what {@link take} returned and could not be sent. */
  restore(taken: ReadonlyMap<string, number>): void {
    for (const [key, count] of taken) this.#add(key, count);
  }

  #add(key: string, count: number): void {
    this.#counts.set(key, Math.min(MAX_COUNT, (this.#counts.get(key) ?? 0) + count));
  }
}

export function hostCallsHeader(taken: ReadonlyMap<string, number>): Record<string, string> {
  if (taken.size === 0) return {};
  return { [HOST_CALLS_HEADER]: [...taken].map(([key, count]) => `${key}:${count}`).join(', ') };
}

const COUNT = /^(?<route>[A-Z]+ [a-z/_-]+)=(?<outcome>[a-z]+):(?<count>[1-9]\d{0,4})$/u;

/** Reads a header of any agent. What this release does not know is left out: it must not become a label. */
export function readHostCalls(header: string): HostCallCount[] {
  const found = header.split(', ', MAX_COUNTS).flatMap((text) => {
    const { route = '', outcome = '', count = '' } = COUNT.exec(text)?.groups ?? {};
    const isKnown = isOneOf(HOST_ROUTES, route) && isOneOf(HOST_OUTCOMES, outcome) && Number(count) <= MAX_COUNT;
    return isKnown ? [{ route, outcome, count: Number(count) }] : [];
  });
  // A repeated one would be a way around the limit.
  return [...new Map(found.map((one) => [`${one.route}=${one.outcome}`, one])).values()];
}

function isOneOf(known: readonly string[], text: string): boolean {
  return known.includes(text);
}
