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
  if (a == null || b == null) return false;
  const release = VERSION.exec(a)?.groups?.['release'];
  return a === b || (release !== undefined && release === VERSION.exec(b)?.groups?.['release']);
}
