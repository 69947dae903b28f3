import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { Step } from './decide.ts';
import type { BundleEntry, BundleTimes, Found, Objects } from './inspect.ts';
import type { Issued } from './issue.ts';
import { AUTHORITY_KEYS, BUNDLE_ANNOTATION, CA_KEY, EXPIRES_ANNOTATION, ISSUER_ANNOTATION, TLS_KEYS } from './keys.ts';
import type { Contents } from './store.ts';

interface Write {
  readonly object: keyof Objects;
  readonly contents: Contents;
}

/** What a step writes. Makes the keys and certificates that the step asks for. */
export async function writeFor(step: Step, found: Found, namespace: string, now: number): Promise<Write> {
  if (step.do === 'publish') return { object: 'bundle', contents: bundleOf(step.entries) };
  if (step.do === 'promote') return { object: 'authorities', contents: authoritiesOf(step.next) };
  const { createAuthority, issueCertificate } = await import('./issue.ts');
  if (step.do === 'issue')
    return { object: 'serving', contents: servingOf(await issueCertificate(namespace, step.signer, now), found) };
  const created = await createAuthority(namespace, now);
  const { current } = found.authorities;
  const isNext = step.as === 'next' && current !== undefined;
  return { object: 'authorities', contents: isNext ? authoritiesOf(current, created) : authoritiesOf(created) };
}

type KeyPair = Pick<Issued, 'pem' | 'key' | 'notAfter'>;

function authoritiesOf(current: KeyPair, next?: KeyPair): Contents {
  const texts = { ...textsOf('current', current), ...(next && textsOf('next', next)) };
  return { data: inBase64(texts), annotations: { [EXPIRES_ANNOTATION]: rfc3339(current.notAfter) } };
}

function textsOf(role: keyof typeof AUTHORITY_KEYS, { pem, key }: KeyPair): Record<string, string> {
  return { [AUTHORITY_KEYS[role].certificate]: pem, [AUTHORITY_KEYS[role].key]: key };
}

function servingOf({ pem, key, issuer, notAfter }: Issued, { bundle }: Found): Contents {
  const authorities = pemOf(bundle.entries);
  return {
    data: inBase64({ [TLS_KEYS.certificate]: pem, [TLS_KEYS.key]: key, [CA_KEY]: authorities }),
    annotations: { [ISSUER_ANNOTATION]: issuer, [EXPIRES_ANNOTATION]: rfc3339(notAfter) },
  };
}

function bundleOf(entries: readonly BundleEntry[]): Contents {
  const times: BundleTimes = {};
  for (const { certificate, publishedAt, unusedSince } of entries) {
    times[certificate.fingerprint] = {
      ...(publishedAt !== undefined && { publishedAt: rfc3339(publishedAt) }),
      ...(unusedSince !== undefined && { unusedSince: rfc3339(unusedSince) }),
    };
  }
  return { data: { [CA_KEY]: pemOf(entries) }, annotations: { [BUNDLE_ANNOTATION]: JSON.stringify(times) } };
}

function pemOf(entries: readonly BundleEntry[]): string {
  return entries.map(({ certificate }) => certificate.pem).join('');
}

function inBase64(texts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
}
