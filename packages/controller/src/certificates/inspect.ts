/**
 * Reads what the three objects of the certificate hold: the Secret of the authorities, the ConfigMap
 * with the bundle that agents trust, and the Secret of the API servers. What cannot be used counts
 * as absent here, so that `decide.ts` replaces it. Nothing is thrown, whatever the objects hold.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { APISERVER, CONTROLLER } from '@brupop/shared/api/names';
import { parseTime } from '@brupop/shared/runtime/clock';
import { AUTHORITY_KEYS, BUNDLE_ANNOTATION, CA_KEY, MANAGED_BY, TLS_KEYS } from './keys.ts';

/** A Secret, with its data in base64, or a ConfigMap. */
export interface DataObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly type?: string;
  readonly data?: Readonly<Record<string, string>>;
}

export interface Objects {
  readonly authorities: DataObject | undefined;
  readonly bundle: DataObject | undefined;
  readonly serving: DataObject | undefined;
}

/** Times are epoch milliseconds. */
export interface Certificate {
  /** SHA-256 of the certificate. */
  readonly fingerprint: string;
  readonly pem: string;
  readonly subject: string;
  readonly notBefore: number;
  readonly notAfter: number;
}

export interface Authority extends Certificate {
  /** PEM of the private key, which belongs to the certificate. */
  readonly key: string;
}

export interface BundleEntry {
  readonly certificate: Certificate;
  /** Since when it has been in the bundle without interruption; absent if that is unknown. */
  readonly publishedAt?: number;
  /** Since when nothing that the operator knows of needs it. */
  readonly unusedSince?: number;
}

/** A certificate with its private key beside it. */
export interface ServingCertificate extends Certificate {
  readonly issuer: string;
  /** Fingerprints of those authorities, of all three objects, that have signed it. */
  readonly signers: readonly string[];
  /** False when it is not valid for the names of the API server. */
  readonly hasNames: boolean;
}

/** Foreign: another actor has made it. */
type Owner = 'absent' | 'operator' | 'foreign';

export interface Found {
  readonly authorities: { readonly owner: Owner; readonly current?: Authority; readonly next?: Authority };
  readonly bundle: {
    readonly owner: Owner;
    readonly entries: readonly BundleEntry[];
    /** False when it is absent, or when some of it cannot be read. */
    readonly isIntact: boolean;
  };
  readonly serving: {
    readonly owner: Owner;
    readonly certificate?: ServingCertificate;
    /** `ca.crt`: in a Secret of the operator, the bundle at the time of issue. */
    readonly authorities: readonly Certificate[];
  };
}

/** The names for which the serving certificate is issued. Agents verify the first. */
export function serverNames(namespace: string): readonly [string, string] {
  return [`${APISERVER}.${namespace}.svc`, `${APISERVER}.${namespace}`];
}

export function inspect({ authorities, bundle, serving }: Objects, namespace: string): Found {
  const current = authorityIn(authorities, 'current', namespace);
  const next = authorityIn(authorities, 'next', namespace);
  const { certificates: published, isIntact } = certificatesIn(bundle?.data?.[CA_KEY]);
  const entries = entriesOf(bundle, published, isIntact);
  const trusted = certificatesIn(decoded(serving, CA_KEY)).certificates;
  const known = [...[current, next].filter((one) => one !== undefined), ...published, ...trusted];
  const certificate = servingIn(serving, known, namespace);
  return {
    authorities: { owner: ownerOf(authorities), ...(current && { current }), ...(next && { next }) },
    bundle: { owner: ownerOf(bundle), entries, isIntact },
    serving: { owner: ownerOf(serving), authorities: trusted, ...(certificate && { certificate }) },
  };
}

function ownerOf(object: DataObject | undefined): Owner {
  if (object === undefined) return 'absent';
  return object.metadata.labels?.[MANAGED_BY] === CONTROLLER ? 'operator' : 'foreign';
}

function decoded(secret: DataObject | undefined, key: string): string {
  return Buffer.from(secret?.data?.[key] ?? '', 'base64').toString();
}

/** The authority of this namespace, since its certificate is constrained to the names there. */
function authorityIn(
  secret: DataObject | undefined,
  role: keyof typeof AUTHORITY_KEYS,
  namespace: string,
): Authority | undefined {
  const key = decoded(secret, AUTHORITY_KEYS[role].key);
  const parsed = parse(decoded(secret, AUTHORITY_KEYS[role].certificate));
  if (parsed === undefined || !isPair(parsed, key) || !parsed.ca) return undefined;
  const isOwn = parsed.subject.split('\n').includes(`O=${namespace}`);
  return isOwn ? { ...factsOf(parsed), key } : undefined;
}

function servingIn(
  secret: DataObject | undefined,
  known: readonly Certificate[],
  namespace: string,
): ServingCertificate | undefined {
  const parsed = parse(decoded(secret, TLS_KEYS.certificate));
  if (parsed === undefined || !isPair(parsed, decoded(secret, TLS_KEYS.key))) return undefined;
  const signers = known.filter(({ pem }) => isSignedBy(parsed, pem)).map(({ fingerprint }) => fingerprint);
  const hasNames = parsed.checkHost(serverNames(namespace)[0], { subject: 'never' }) !== undefined;
  return { ...factsOf(parsed), issuer: lineOf(parsed.issuer), signers: [...new Set(signers)], hasNames };
}

function isSignedBy(certificate: X509Certificate, authority: string): boolean {
  const parsed = parse(authority);
  return parsed !== undefined && certificate.checkIssued(parsed) && certificate.verify(parsed.publicKey);
}

const PEM = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** All certificates of a PEM text, each once. `isIntact` is false if it holds none or anything else. */
function certificatesIn(text = ''): { readonly certificates: Certificate[]; readonly isIntact: boolean } {
  const blocks = text.match(PEM) ?? [];
  const parsed = blocks.map(parse).filter((one) => one !== undefined);
  const byFingerprint = new Map(parsed.map((one) => [one.fingerprint256, factsOf(one)]));
  const isIntact = blocks.length > 0 && parsed.length === blocks.length && text.replaceAll(PEM, '').trim() === '';
  return { certificates: [...byFingerprint.values()], isIntact };
}

/** Times are those of the annotation, and only while the bundle is as the operator wrote it. */
function entriesOf(
  bundle: DataObject | undefined,
  certificates: readonly Certificate[],
  isIntact: boolean,
): BundleEntry[] {
  const times = isIntact ? timesIn(bundle?.metadata.annotations?.[BUNDLE_ANNOTATION]) : {};
  return certificates.map((certificate): BundleEntry => {
    const { publishedAt, unusedSince } = times[certificate.fingerprint] ?? {};
    const published = parseTime(publishedAt);
    const unused = parseTime(unusedSince);
    return {
      certificate,
      ...(published !== undefined && { publishedAt: published }),
      ...(unused !== undefined && { unusedSince: unused }),
    };
  });
}

/** The annotation of the bundle: times by fingerprint, RFC 3339. */
export type BundleTimes = Record<string, { publishedAt?: string; unusedSince?: string } | undefined>;

function timesIn(annotation = '{}'): BundleTimes {
  try {
    const parsed = JSON.parse(annotation) as BundleTimes | null;
    return typeof parsed === 'object' && parsed !== null ? parsed : {};
  } catch {
    return {};
  }
}

function parse(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}

function isPair(certificate: X509Certificate, key: string): boolean {
  try {
    return certificate.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

function factsOf(certificate: X509Certificate): Certificate {
  return {
    fingerprint: certificate.fingerprint256,
    pem: certificate.toString(),
    subject: lineOf(certificate.subject),
    notBefore: certificate.validFromDate.getTime(),
    notAfter: certificate.validToDate.getTime(),
  };
}

/** Node.js writes each part of a name on a line of its own. */
function lineOf(name: string): string {
  return name.split('\n').join(', ');
}
