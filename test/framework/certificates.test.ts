import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:tls';
import { makeServingCertificate, type ServingCertificateOptions } from './certificates.ts';

const options: ServingCertificateOptions = {
  commonName: 'brupop-apiserver',
  dnsNames: ['brupop-apiserver.brupop.svc', 'localhost'],
  ipAddresses: ['127.0.0.1'],
};

describe('makeServingCertificate', () => {
  test('makes a certificate that its authority has signed, for the names asked for', () => {
    const { caCert, cert, key } = makeServingCertificate({ ...options, days: 30 });
    const [authority, serving] = [new X509Certificate(caCert), new X509Certificate(cert)];
    expect(authority.ca).toBe(true);
    expect(serving.ca).toBe(false);
    expect(serving.checkIssued(authority)).toBe(true);
    expect(serving.verify(authority.publicKey)).toBe(true);
    expect(serving.subjectAltName).toBe('DNS:brupop-apiserver.brupop.svc, DNS:localhost, IP Address:127.0.0.1');
    const left = new Date(serving.validTo).getTime() - Date.now();
    expect(Math.round(left / 86_400_000)).toBe(30);
    expect(key).toContain('BEGIN PRIVATE KEY');
  });

  test('no two have the same serial number', () => {
    const serials = [1, 2].map(() => new X509Certificate(makeServingCertificate(options).cert).serialNumber);
    expect(serials[0]).not.toBe(serials[1]);
  });

  async function handshake(
    certificate: { cert: string; key: string },
    ca: string,
    servername: string,
  ): Promise<string> {
    const server = createServer(certificate).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const socket = connect({ port, host: '127.0.0.1', ca, servername });
    try {
      await once(socket, 'secureConnect');
      return 'trusted';
    } catch (error) {
      return (error as NodeJS.ErrnoException).code ?? String(error);
    } finally {
      socket.destroy();
      server.close();
    }
  }

  test('a TLS client that trusts the authority trusts the server, for its own names only', async () => {
    const made = makeServingCertificate(options);
    expect(await handshake(made, made.caCert, 'localhost')).toBe('trusted');
    expect(await handshake(made, made.caCert, 'elsewhere')).toBe('ERR_TLS_CERT_ALTNAME_INVALID');
    expect(await handshake(made, makeServingCertificate(options).caCert, 'localhost')).not.toBe('trusted');
  });

  test('one made for the past has expired', async () => {
    const made = makeServingCertificate({ ...options, days: -1 });
    expect(await handshake(made, made.caCert, 'localhost')).toBe('CERT_HAS_EXPIRED');
  });

  test('one for long after 2050 is valid', async () => {
    const made = makeServingCertificate({ ...options, days: 365 * 40 });
    expect(await handshake(made, made.caCert, 'localhost')).toBe('trusted');
  });

  test('refuses an address that is not IPv4', () => {
    expect(() => makeServingCertificate({ ...options, ipAddresses: ['::1'] })).toThrow(/must be IPv4, found "::1"/);
  });
});
