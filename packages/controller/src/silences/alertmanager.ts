/**
 * Silences in one Alertmanager. Its API is the only record of them: each is looked up by its matchers before it is set or
 * ended, so that a new leader continues those of the former one. A silence is the operator's own if `createdBy` and all of its
 * matchers are: nothing else is ever prolonged or ended.
 *
 *     none is found    one is created; Alertmanager (0.28) sets a start in the past to its own time
 *     one is found     it is prolonged and keeps its ID, which Alertmanager does for the same matchers and start; of several the
 *                      one that ends last is
 *     it has expired   it counts as none, and Alertmanager deletes it days later
 */
import * as v from 'valibot';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import type { HttpCall } from '@brupop/shared/runtime/http-call';
import { exchange, type ExchangeOptions as Options } from '../notify/deliver.ts';
import { DeliveryError, type Target } from '../notify/target.ts';
import type { Matcher, Silence } from './wanted.ts';

export const CREATED_BY = 'bottlerocket-update-operator';
/** How long a silence lasts if nothing prolongs or ends it. */
export const LASTS_MS = 1_500_000;
/** More than the difference of two clocks: a start in the future would delay the silence. */
const EARLIER_MS = 600_000;
/** Of the silences with the name of one node, also those that have expired: each takes about 600 bytes. */
const MAX_BODY_BYTES = 1_048_576;
const CUT = 'more, or a response that did not end';

const matcher = v.object({
  name: v.string(),
  value: v.string(),
  isRegex: v.boolean(),
  isEqual: v.optional(v.boolean(), true),
});
const found = v.object({
  id: v.string(),
  createdBy: v.string(),
  matchers: v.array(matcher),
  startsAt: v.string(),
  endsAt: v.string(),
  status: v.object({ state: v.string() }),
});
type Found = v.InferOutput<typeof found>;

/** Lets the silence last from now. Throws DeliveryError, or the reason of `signal`. */
export async function setSilence(
  target: Target,
  { matchers, comment }: Silence,
  options: Options,
  signal: AbortSignal,
): Promise<'Created' | 'Prolonged'> {
  const now = options.clock.now();
  const [own] = await ownSilences(target, matchers, options, signal);
  const body = {
    ...(own !== undefined && { id: own.id }),
    // In the order in which Alertmanager has them: it compares lists.
    matchers: own?.matchers ?? matchers,
    startsAt: own?.startsAt ?? rfc3339(now - EARLIER_MS),
    endsAt: rfc3339(Math.max(now + LASTS_MS, endOf(own))),
    createdBy: CREATED_BY,
    comment,
  };
  await ask(target, { method: 'POST', path: '/api/v2/silences', body: JSON.stringify(body) }, options, signal);
  return own === undefined ? 'Created' : 'Prolonged';
}

/** Ends all silences of the operator with these matchers, and returns how many. Throws as {@link setSilence}. */
export async function endSilence(
  target: Target,
  { matchers }: Pick<Silence, 'matchers'>,
  options: Options,
  signal: AbortSignal,
): Promise<number> {
  const own = await ownSilences(target, matchers, options, signal);
  for (const { id } of own)
    await ask(target, { method: 'DELETE', path: `/api/v2/silence/${encodeURIComponent(id)}` }, options, signal);
  return own.length;
}

/** Asks for the silences of no node. Throws as {@link setSilence}. */
export async function checkAlertmanager(
  target: Target,
  label: string,
  options: Options,
  signal: AbortSignal,
): Promise<void> {
  await listSilences(target, { name: label, value: '-' }, options, signal);
}

/** Those that have not expired, the one that ends last first. */
async function ownSilences(
  target: Target,
  matchers: Silence['matchers'],
  options: Options,
  signal: AbortSignal,
): Promise<Found[]> {
  const all = await listSilences(target, matchers[0], options, signal);
  const isOwn = (one: Found): boolean =>
    one.createdBy === CREATED_BY && one.status.state !== 'expired' && isSame(one.matchers, matchers);
  return all.filter(isOwn).toSorted((a, b) => endOf(b) - endOf(a));
}

/** Alertmanager compares the text of a filter with the text of the matcher of that name. */
async function listSilences(
  target: Target,
  { name, value }: Pick<Matcher, 'name' | 'value'>,
  options: Options,
  signal: AbortSignal,
): Promise<Found[]> {
  const filter = `${name}=${JSON.stringify(value)}`;
  const body = await ask(target, { method: 'GET', path: '/api/v2/silences', filter }, options, signal, MAX_BODY_BYTES);
  if (body === undefined)
    throw new DeliveryError('Response', `expected a list of silences of at most ${MAX_BODY_BYTES} bytes, found ${CUT}`);
  const list = v.safeParse(v.array(v.unknown()), parsed(body));
  if (!list.success) throw new DeliveryError('Response', 'expected a list of silences, found another response');
  return list.output.flatMap((one) => {
    const { success, output } = v.safeParse(found, one);
    return success ? [output] : [];
  });
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

interface Request extends Pick<HttpCall, 'method' | 'body'> {
  /** Below the prefix of the address. */
  readonly path: string;
  readonly filter?: string;
}

async function ask(
  target: Target,
  { method, path, filter, body }: Request,
  options: Options,
  signal: AbortSignal,
  maxBytes?: number,
): Promise<string | undefined> {
  const url = new URL(target.address);
  url.pathname = `${url.pathname.replace(/\/+$/u, '')}${path}`;
  if (filter !== undefined) url.searchParams.append('filter', filter);
  const request = { ...target, address: url.href, method, ...(body !== undefined && { body }) };
  return await exchange(request, options, signal, maxBytes);
}

function endOf(silence: Pick<Found, 'endsAt'> | undefined): number {
  return parseTime(silence?.endsAt) ?? 0;
}

function isSame(one: readonly Matcher[], other: readonly Matcher[]): boolean {
  return textOf(one) === textOf(other);
}

function textOf(matchers: readonly Matcher[]): string {
  const texts = matchers.map(({ name, value, isRegex, isEqual }) => JSON.stringify([name, value, isRegex, isEqual]));
  return texts.toSorted().join('\n');
}
