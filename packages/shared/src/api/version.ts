/** Semantic Versioning 2.0.0, items 2, 9 and 10, with an optional `v`, which version locks of Bottlerocket may carry. */
const VERSION =
  /^v?(?<release>(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?)(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$/u;

/** Longest version in every object and message, in characters. */
export const VERSION_LIMIT = 128;

/** True when `text` is a semantic version, with or without a leading `v`. */
export function isVersion(text: string): boolean {
  return VERSION.test(text);
}

/** True when objects and messages take `value` as a version: a semantic version without a leading `v`. */
export function isVersionText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= VERSION_LIMIT && !value.startsWith('v') && isVersion(value);
}

/**
 * True when both name the same release: a leading `v` and build metadata do not count. Texts that are no versions, such as the
 * version lock `latest`, are compared as they are. An absent version equals nothing.
 */
export function sameVersion(a: string | null | undefined, b: string | null | undefined): boolean {
  if (a == null || b == null) return false;
  const release = VERSION.exec(a)?.groups?.['release'];
  return a === b || (release !== undefined && release === VERSION.exec(b)?.groups?.['release']);
}
