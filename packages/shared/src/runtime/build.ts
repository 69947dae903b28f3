/** Set by `scripts/bundle.ts`. */
declare const BRUPOP_REVISION: string | undefined;

/** The release of these programs. A test compares it with the chart. */
export const RELEASE = '0.1.0';
/** The commit that they were built from; `unknown` when they are run from their sources. */
export const REVISION = typeof BRUPOP_REVISION === 'undefined' ? 'unknown' : BRUPOP_REVISION;
