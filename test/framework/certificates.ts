import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIPv4 } from 'node:net';

export interface ServingCertificateOptions {
  commonName: string;
  dnsNames?: readonly string[];
  /** IPv4 addresses. */
  ipAddresses?: readonly string[];
  /**
   * Days of validity from now; default 1. A negative number makes a certificate that has expired.
   */
  days?: number;
}

/** PEM texts. `cert` is signed by `caCert`. */
export interface ServingCertificate {
  caCert: string;
  cert: string;
  key: string;
}

const day = 24 * 60 * 60 * 1000;

/** A certificate authority. */
export interface Authority {
  /** PEM text. */
  readonly caCert: string;
  /** Makes a serving certificate with a fresh key, valid from one hour ago. */
  issue(options: ServingCertificateOptions): ServingCertificate;
}

/** Makes a fresh certificate authority (P-256), valid from one hour ago for a number of days. */
export function makeAuthority(issuer: string, days = 1): Authority {
  const authority = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const caCert = certificate(
    { issuer, subject: issuer, validity: validityOf(days), extensions: authorityExtensions() },
    authority.publicKey,
    authority.privateKey,
  );
  const issue = (options: ServingCertificateOptions): ServingCertificate => {
    const serving = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const validity = validityOf(options.days ?? 1);
    const cert = certificate(
      { issuer, subject: options.commonName, validity, extensions: servingExtensions(options) },
      serving.publicKey,
      authority.privateKey,
    );
    return { caCert, cert, key: serving.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
  };
  return { caCert, issue };
}

/** Makes a serving certificate and a fresh certificate authority that has signed it. */
export function makeServingCertificate(options: ServingCertificateOptions): ServingCertificate {
  return makeAuthority(`${options.commonName} test CA`, options.days).issue(options);
}

function validityOf(days: number): { notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return {
    notBefore: new Date(Math.min(now, now + days * day) - day / 24),
    notAfter: new Date(now + days * day),
  };
}

interface Contents {
  issuer: string;
  subject: string;
  validity: { notBefore: Date; notAfter: Date };
  extensions: Buffer[];
}

/** A DER encoding of RFC 5280's Certificate, as PEM. */
function certificate(contents: Contents, subjectKey: KeyObject, signingKey: KeyObject): string {
  const ecdsaWithSha256 = sequence(oid('1.2.840.10045.4.3.2'));
  const body = sequence(
    der(0xa0, integer(Buffer.from([2]))), // version 3
    integer(Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    ecdsaWithSha256,
    name(contents.issuer),
    sequence(validityTime(contents.validity.notBefore), validityTime(contents.validity.notAfter)),
    name(contents.subject),
    createPublicKey(subjectKey.export({ type: 'spki', format: 'pem' })).export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(...contents.extensions)),
  );
  const encoded = sequence(body, ecdsaWithSha256, bitString(sign('sha256', body, signingKey)));
  const lines = encoded.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}

function authorityExtensions(): Buffer[] {
  return [
    extension('2.5.29.19', true, sequence(der(0x01, Buffer.from([0xff])))), // basicConstraints: CA
    extension('2.5.29.15', true, der(0x03, Buffer.from([2, 0b0000_0100]))), // keyUsage: keyCertSign
  ];
}

function servingExtensions(options: ServingCertificateOptions): Buffer[] {
  const names = (options.dnsNames ?? []).map((dnsName) => der(0x82, Buffer.from(dnsName, 'ascii')));
  const addresses = (options.ipAddresses ?? []).map((address) => der(0x87, ipv4(address)));
  return [
    extension('2.5.29.15', true, der(0x03, Buffer.from([7, 0b1000_0000]))), // keyUsage: digitalSignature
    extension('2.5.29.37', false, sequence(oid('1.3.6.1.5.5.7.3.1'))), // extKeyUsage: serverAuth
    extension('2.5.29.17', false, sequence(...names, ...addresses)), // subjectAltName
  ];
}

function extension(id: string, critical: boolean, value: Buffer): Buffer {
  return sequence(oid(id), ...(critical ? [der(0x01, Buffer.from([0xff]))] : []), der(0x04, value));
}

function name(commonName: string): Buffer {
  return sequence(der(0x31, sequence(oid('2.5.4.3'), der(0x0c, Buffer.from(commonName, 'utf8')))));
}

function ipv4(address: string): Buffer {
  if (!isIPv4(address)) throw new Error(`a certificate's IP address must be IPv4, found ${JSON.stringify(address)}`);
  return Buffer.from(address.split('.').map(Number));
}

/**
 * RFC 5280 wants UTCTime until 2049 (two-digit years) and GeneralizedTime after; OpenSSL and Go
 * read either.
 */
function validityTime(time: Date): Buffer {
  const digits = time.toISOString().replaceAll(/[-:T]|\.\d+/g, '');
  return time.getUTCFullYear() < 2050
    ? der(0x17, Buffer.from(digits.slice(2), 'ascii'))
    : der(0x18, Buffer.from(digits, 'ascii'));
}

function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  return der(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

/** Big-endian groups of seven bits, all but the last with the high bit set. */
function base128(value: number): number[] {
  const groups = [value & 0x7f];
  for (let left = value >>> 7; left > 0; left >>>= 7) groups.unshift((left & 0x7f) | 0x80);
  return groups;
}

function integer(value: Buffer): Buffer {
  return der(0x02, value);
}

function bitString(value: Buffer): Buffer {
  return der(0x03, Buffer.concat([Buffer.from([0]), value]));
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, ...parts);
}

/** Tag, length (short or long form), contents. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const contents = Buffer.concat(parts);
  const { length } = contents;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), contents]);
  const bytes = length < 0x100 ? [0x81, length] : [0x82, length >>> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...bytes]), contents]);
}
