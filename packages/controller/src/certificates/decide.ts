/**
 * Decides the next write for the certificate of the API servers. Pure: gets what was found in the
 * three objects and the time, returns one write, which `issuer.ts` performs; it then decides again
 * with what the API server answered, until nothing is left to do. So a crash between two writes is
 * nothing special: the next leader finds the objects, and continues.
 *
 *     absent -- create --> next: published, does not sign -- an hour in the bundle --> current: signs
 *     current -- the next one has taken over --> trusted -- unused for an hour --> out of the bundle
 *
 * Invariant: the certificate that any API server serves verifies against the bundle that any agent
 * has mounted, although both may be what was written up to {@link PUBLISH_MS} ago. Therefore
 *
 * - an authority is stored before it is published, and published for PUBLISH_MS before it signs;
 * - it leaves the bundle when no certificate of it has been in the Secret for PUBLISH_MS.
 *
 * The one exception: if the certificate in the Secret is missing, or cannot be used, an authority
 * signs as soon as it is published, since waiting has no use. When the key of the current
 * authority is lost, a new one is published while the certificate in use stays; only if that is
 * lost too do agents have to wait for their kubelet. An object that another actor made is never
 * changed.
 */
import { isFromFuture } from '@brupop/shared/api/deadlines';
import type { Authority, BundleEntry, Certificate, Found } from './inspect.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/**
 * How long a change of a ConfigMap or Secret may take to reach the programs. A kubelet takes about
 * two minutes; the rest is for nodes that are cut off from the API server for a while.
 */
export const PUBLISH_MS = HOUR_MS;
export const AUTHORITY_LIFETIME_MS = 730 * DAY_MS;
export const CERTIFICATE_LIFETIME_MS = 90 * DAY_MS;
/** Certificates are valid from before their issue, for nodes whose clock is slow. */
export const BACKDATE_MS = HOUR_MS;
/** Of its validity, after which a certificate is replaced. */
const RENEW_AFTER = 2 / 3;

export type Step =
  | { readonly do: 'createAuthority'; readonly as: 'current' | 'next'; readonly why: string }
  /** The next authority becomes the current one. The key of the former is deleted. */
  | { readonly do: 'promote'; readonly next: Authority; readonly why: string }
  | { readonly do: 'publish'; readonly entries: readonly BundleEntry[]; readonly why: string }
  | { readonly do: 'issue'; readonly signer: Authority; readonly why: string };

export interface Problem {
  readonly reason: 'NotOwned' | 'SecretMissing' | 'InvalidSecret';
  readonly object: keyof Found;
  /** What was found, and what to do, after the name of the object. */
  readonly message: string;
}

export interface Decision {
  readonly step?: Step | undefined;
  readonly problem?: Problem | undefined;
}

/** For tls.mode `self`. */
export function decide(found: Found, now: number): Decision {
  const foreign = (['authorities', 'bundle'] as const).find((object) => found[object].owner === 'foreign');
  if (foreign !== undefined) return { problem: notOwned(foreign) };
  const problem = found.serving.owner === 'foreign' ? notOwned('serving') : undefined;
  const step =
    replaceAuthority(found, now) ??
    changeBundle(found, now, []) ??
    promote(found, now) ??
    (problem === undefined ? issue(found, now) : undefined);
  return { step, problem };
}

/**
 * For tls.mode `cert-manager`: the authorities of the Secret are copied into the bundle, and leave
 * it when they have not been in the Secret for PUBLISH_MS.
 */
export function decideCopy(found: Found, now: number): Decision {
  if (found.bundle.owner === 'foreign') return { problem: notOwned('bundle') };
  const { owner, authorities, certificate } = found.serving;
  if (owner === 'absent') return { problem: inSecret('SecretMissing', 'cert-manager has not written it yet') };
  const step = authorities.length === 0 ? undefined : changeBundle(found, now, authorities);
  if (step !== undefined) return { step };
  if (authorities.length === 0) return { problem: inSecret('InvalidSecret', 'ca.crt has no certificate') };
  if (certificate === undefined)
    return { problem: inSecret('InvalidSecret', 'tls.crt and tls.key are not a certificate and its private key') };
  if (!certificate.hasNames)
    return { problem: inSecret('InvalidSecret', 'tls.crt is not valid for the name of the API server') };
  if (!works(found, now))
    return { problem: inSecret('InvalidSecret', 'tls.crt has expired, or no certificate in ca.crt has signed it') };
  return {};
}

function notOwned(object: keyof Found): Problem {
  const kept = object === 'serving' ? ' Until then agents trust its ca.crt.' : '';
  const message =
    'another actor has made it, and the operator does not change it. To keep it, set tls.mode to provided; to have ' +
    `certificates issued, delete it.${kept}`;
  return { reason: 'NotOwned', object, message };
}

function inSecret(reason: Problem['reason'], found: string): Problem {
  return { reason, object: 'serving', message: `${found}. Check the Certificate and cert-manager.` };
}

function replaceAuthority({ authorities: { current, next } }: Found, now: number): Step | undefined {
  const isNextUsable = isValid(next, now);
  if (!isValid(current, now)) {
    const why = current === undefined ? 'the Secret has no usable authority' : 'the authority is not valid now';
    return next !== undefined && isNextUsable
      ? { do: 'promote', next, why }
      : { do: 'createAuthority', as: 'current', why };
  }
  if (!isNextUsable && isDue(current, now))
    return { do: 'createAuthority', as: 'next', why: 'two thirds of the validity of the authority have passed' };
  return undefined;
}

function promote(found: Found, now: number): Step | undefined {
  const { current, next } = found.authorities;
  if (next === undefined || !isDue(current, now) || !isPublished(found, next, now)) return undefined;
  return { do: 'promote', next, why: 'the next authority is known to all agents' };
}

/** `added` are authorities that the bundle must have besides those in use. */
function changeBundle(found: Found, now: number, added: readonly Certificate[]): Step | undefined {
  const { bundle } = found;
  const entries = wantedEntries(found, now, added);
  const isSame =
    bundle.isIntact && JSON.stringify(entries.map(timesOf)) === JSON.stringify(bundle.entries.map(timesOf));
  // Agents cannot read an empty bundle, which would be written again and again.
  if (isSame || entries.length === 0) return undefined;
  const why = bundle.isIntact ? 'the authorities in use have changed' : 'the bundle is missing or damaged';
  return { do: 'publish', entries, why };
}

const timesOf = ({ certificate, publishedAt, unusedSince }: BundleEntry): unknown[] => [
  certificate.fingerprint,
  publishedAt,
  unusedSince,
];

function wantedEntries(found: Found, now: number, added: readonly Certificate[]): BundleEntry[] {
  const { authorities, bundle, serving } = found;
  const own = [authorities.current, authorities.next].filter((one) => one !== undefined);
  const signers = serving.certificate?.signers ?? [];
  const inUse = new Set([...[...own, ...added].map(({ fingerprint }) => fingerprint), ...signers]);
  // The Secret has the bundle of its time, so that no authority is lost with the ConfigMap.
  const kept = serving.authorities.filter(({ fingerprint }) => !bundle.isIntact || inUse.has(fingerprint));
  const before = new Map(bundle.entries.map((entry) => [entry.certificate.fingerprint, entry]));
  const certificates = [...bundle.entries.map(({ certificate }) => certificate), ...own, ...kept, ...added];
  const unique = new Map(certificates.map((one) => [one.fingerprint, one]));
  return [...unique.values()]
    .filter(({ notAfter }) => now < notAfter)
    .map((certificate) => entryOf(certificate, before.get(certificate.fingerprint), inUse, now))
    .filter(({ unusedSince }) => unusedSince === undefined || now - unusedSince < PUBLISH_MS);
}

function entryOf(
  { fingerprint, pem, subject, notBefore, notAfter }: Certificate,
  before: BundleEntry | undefined,
  inUse: ReadonlySet<string>,
  now: number,
): BundleEntry {
  return {
    certificate: { fingerprint, pem, subject, notBefore, notAfter },
    publishedAt: notInFuture(before?.publishedAt, now),
    ...(!inUse.has(fingerprint) && { unusedSince: notInFuture(before?.unusedSince, now) }),
  };
}

/** A time that is missing, or that a wrong clock has written, starts now. */
function notInFuture(time: number | undefined, now: number): number {
  return time === undefined || isFromFuture(time, now) ? now : time;
}

function issue(found: Found, now: number): Step | undefined {
  const { current: signer } = found.authorities;
  if (signer === undefined) return undefined;
  const why = whyIssue(found, signer, now);
  if (why === undefined) return undefined;
  return isPublished(found, signer, now) || !works(found, now) ? { do: 'issue', signer, why } : undefined;
}

function whyIssue({ serving: { certificate } }: Found, signer: Authority, now: number): string | undefined {
  if (certificate === undefined) return 'the Secret has no usable certificate';
  if (!certificate.hasNames) return 'the certificate is not valid for the name of the API server';
  if (!isValid(certificate, now)) return 'the certificate is not valid now';
  if (isDue(certificate, now)) return 'two thirds of the validity of the certificate have passed';
  return certificate.signers.includes(signer.fingerprint) ? undefined : 'its authority has been replaced';
}

/** True when agents that have the bundle accept the certificate in the Secret. */
export function works({ bundle, serving: { certificate } }: Found, now: number): boolean {
  if (certificate === undefined || !certificate.hasNames || !isValid(certificate, now)) return false;
  const trusted = bundle.entries.filter((entry) => isValid(entry.certificate, now));
  return trusted.some((entry) => certificate.signers.includes(entry.certificate.fingerprint));
}

function isPublished({ bundle }: Found, { fingerprint }: Authority, now: number): boolean {
  const entry = bundle.entries.find(({ certificate }) => certificate.fingerprint === fingerprint);
  return entry?.publishedAt !== undefined && now - entry.publishedAt >= PUBLISH_MS;
}

function isValid(certificate: Certificate | undefined, now: number): boolean {
  return certificate !== undefined && certificate.notBefore <= now && now < certificate.notAfter;
}

/** When the certificate is to be replaced, epoch milliseconds. */
export function renewAt({ notBefore, notAfter }: Certificate): number {
  return notBefore + RENEW_AFTER * (notAfter - notBefore);
}

function isDue(certificate: Certificate | undefined, now: number): boolean {
  return certificate !== undefined && now >= renewAt(certificate);
}
