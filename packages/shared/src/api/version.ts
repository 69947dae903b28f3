/** SemVer 2.0.0 with an optional `v`, which version locks may carry: core and pre-release count, build metadata does not. */
const SEMVER =
  /^v?(?<precedence>(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z.-]+)?)(?:\+[0-9A-Za-z.-]+)?$/u;

/** The part of a version that tells releases apart, or undefined when `text` is no version. */
function precedence(text: string): string | undefined {
  return SEMVER.exec(text)?.groups?.['precedence'];
}

/** True when `text` is a semantic version. */
export function isVersion(text: string): boolean {
  return precedence(text) !== undefined;
}

/** True when both name the same release. Texts that are no versions are compared as they are. */
export function sameVersion(a: string, b: string): boolean {
  return a === b || (isVersion(a) && precedence(a) === precedence(b));
}
