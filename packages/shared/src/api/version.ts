import * as v from 'valibot';
import { textThat } from './schema.ts';

/** Semantic Versioning 2.0.0, items 2, 9 and 10; version locks of Bottlerocket may carry a `v`. */
const VERSION =
  /^v?(?<release>(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?)(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$/u;

const LIMIT = 128;
const EXPECTED = 'a semantic version such as 1.21.0, without a leading v';
/** {@link VERSION} without a leading `v`, in the language of the API server. */
const RULE =
  "self.matches('^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$')";

export const version = v.pipe(
  textThat((text) => !text.startsWith('v') && isVersion(text), LIMIT, EXPECTED),
  v.metadata({ 'x-kubernetes-validations': [{ rule: RULE, message: `must be ${EXPECTED}` }] }),
);
/** A version lock as hosts store it: `latest` or a version, perhaps with a leading `v`. */
export const versionLock = textThat((text) => text === 'latest' || isVersion(text), LIMIT, 'a version or latest');

export function isVersion(text: string): boolean {
  return VERSION.test(text);
}

/**
 * True when both name the same release: a leading `v` and build metadata do not count. Texts that
 * are no versions, such as `latest`, are compared as they are. An absent version equals nothing.
 */
export function sameVersion(a: string | null | undefined, b: string | null | undefined): boolean {
  return a != null && b != null && (a === b || releaseOf(a) === releaseOf(b));
}

interface Known {
  readonly release: string;
  /** Undefined: the text is no version. */
  readonly parts: { readonly numbers: readonly number[]; readonly isPreRelease: boolean } | undefined;
}

/** A fleet has few versions, and plans compare those of all nodes; an agent may report any number of texts. */
const MAX_KNOWN = 100;
const known = new Map<string, Known>();

function knownOf(text: string): Known {
  const found = known.get(text) ?? read(text);
  if (known.size >= MAX_KNOWN && !known.has(text)) known.clear();
  known.set(text, found);
  return found;
}

function read(text: string): Known {
  const release = VERSION.exec(text)?.groups?.['release'];
  if (release === undefined) return { release: text, parts: undefined };
  const [core = ''] = release.split('-', 1);
  return { release, parts: { numbers: core.split('.').map(Number), isPreRelease: release.includes('-') } };
}

/** Returns the version without a leading `v` and build metadata; any other text is returned as it is. */
export function releaseOf(text: string): string {
  return knownOf(text).release;
}

/**
 * True when `a` is a later release than `b` (Semantic Versioning 2.0.0, item 11). False when either is no
 * version. Of two pre-releases of the same release neither is later.
 */
export function isLater(a: string, b: string): boolean {
  const [one, other] = [knownOf(a).parts, knownOf(b).parts];
  if (one === undefined || other === undefined) return false;
  const at = one.numbers.findIndex((number, i) => number !== other.numbers[i]);
  if (at < 0) return other.isPreRelease && !one.isPreRelease;
  return (one.numbers[at] ?? 0) > (other.numbers[at] ?? 0);
}

/** Returns the major, minor and patch number of a version; nothing for another text. */
export function numbersOf(text: string): readonly number[] {
  return knownOf(text).parts?.numbers ?? [];
}
