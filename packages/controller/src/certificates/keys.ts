/** How the objects of the certificate are laid out; agents and API servers mount two of them. */
import { GROUP } from '@brupop/shared/api/names';

/** The Secret with the private keys of the authorities. No pod refers to it. */
export const CA_SECRET = 'brupop-ca';

export const TLS_KEYS = { certificate: 'tls.crt', key: 'tls.key' } as const;
/** In the ConfigMap, and in the Secret of the API servers. */
export const CA_KEY = 'ca.crt';
/** `next` is the authority that is published and does not sign yet. */
export const AUTHORITY_KEYS = {
  current: { certificate: 'ca.crt', key: 'ca.key' },
  next: { certificate: 'next-ca.crt', key: 'next-ca.key' },
} as const;

/** Label of the objects that the controller made, with the value {@link CONTROLLER}. */
export const MANAGED_BY = 'app.kubernetes.io/managed-by';
/** On the ConfigMap: since when each certificate is in the bundle, and since when it is not needed. */
export const BUNDLE_ANNOTATION = `${GROUP}/authorities`;
/** On the Secrets: what they hold, for people. */
export const ISSUER_ANNOTATION = `${GROUP}/issuer`;
export const EXPIRES_ANNOTATION = `${GROUP}/expires`;
