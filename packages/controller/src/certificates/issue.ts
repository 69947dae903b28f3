/**
 * Makes keys and certificates: ECDSA with P-256 and SHA-256. Loaded only when something is issued,
 * since the library takes 15 MiB of memory.
 */
import 'reflect-metadata';
import { createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, type webcrypto } from 'node:crypto';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';
import { APISERVER } from '@brupop/shared/api/names';
import { dateOf } from '@brupop/shared/runtime/clock';
import { AUTHORITY_LIFETIME_MS, BACKDATE_MS, CERTIFICATE_LIFETIME_MS } from './decide.ts';
import { type Authority, serverNames } from './inspect.ts';

export interface Issued extends Pick<Authority, 'pem' | 'key' | 'notAfter'> {
  readonly issuer: string;
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** Makes an authority that can sign certificates for the API server of `namespace` only. */
export async function createAuthority(namespace: string, now: number): Promise<Issued> {
  const keys = generateKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    // A name of its own, so that a client finds the right one among several.
    name: [{ O: [namespace] }, { CN: [`brupop CA ${randomBytes(4).toString('hex')}`] }],
    keys,
    signingAlgorithm: ALGORITHM,
    ...validity(now, now + AUTHORITY_LIFETIME_MS),
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
      nameConstraints(serverNames(namespace)),
    ],
  });
  return issued(certificate, keys.pem);
}

/** Makes a certificate for the API server of `namespace`. It is valid no longer than its authority. */
export async function issueCertificate(namespace: string, authority: Authority, now: number): Promise<Issued> {
  const issuer = new X509Certificate(authority.pem);
  const keys = generateKeys();
  const certificate = await X509CertificateGenerator.create({
    subject: [{ CN: [APISERVER] }],
    issuer: issuer.subjectName,
    publicKey: keys.publicKey,
    signingKey: signingKey(createPrivateKey(authority.key)),
    signingAlgorithm: ALGORITHM,
    ...validity(now, Math.min(now + CERTIFICATE_LIFETIME_MS, authority.notAfter)),
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension(serverNames(namespace).map((value) => ({ type: 'dns', value }))),
      await AuthorityKeyIdentifierExtension.create(issuer.publicKey),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return issued(certificate, keys.pem);
}

function validity(now: number, notAfter: number): { notBefore: Date; notAfter: Date } {
  return { notBefore: dateOf(now - BACKDATE_MS), notAfter: dateOf(notAfter) };
}

interface Keys {
  readonly privateKey: webcrypto.CryptoKey;
  readonly publicKey: webcrypto.CryptoKey;
  /** PEM of the private key. */
  readonly pem: string;
}

function generateKeys(): Keys {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: ALGORITHM.namedCurve });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  return { privateKey: signingKey(privateKey), publicKey: publicKey.toCryptoKey(ALGORITHM, true, ['verify']), pem };
}

function signingKey(key: KeyObject): webcrypto.CryptoKey {
  return key.toCryptoKey(ALGORITHM, false, ['sign']);
}

function issued(certificate: X509Certificate, key: string): Issued {
  const { issuer, notAfter } = certificate;
  return { pem: `${certificate.toString('pem')}\n`, key, issuer, notAfter: notAfter.getTime() };
}

/** RFC 5280, 4.2.1.10: these names and those below them, and no IP address. */
function nameConstraints(names: readonly string[]): Extension {
  const permitted = names.map((name) => der(0x30, der(0x82, Buffer.from(name))));
  const excluded = [8, 32].map((length) => der(0x30, der(0x87, Buffer.alloc(length))));
  return new Extension('2.5.29.30', true, der(0x30, der(0xa0, ...permitted), der(0xa1, ...excluded)));
}

/** An element of DER with up to 65535 octets of contents. */
function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const contents = Buffer.concat(parts);
  const { length } = contents;
  const long = length < 0x100 ? [0x81, length] : [0x82, length >>> 8, length & 0xff];
  const head = length < 0x80 ? [length] : long;
  return Buffer.concat([Buffer.from([tag, ...head]), contents]);
}
