import type { Connection } from '../control-plane/connection.ts';
import { makeServingCertificate } from '../certificates.ts';

const NAMES = { Issuer: 'issuers', Certificate: 'certificates' } as const;

/** The two definitions of cert-manager.io/v1 that the chart uses, without a schema of their fields. */
export async function installCertManagerCrds({ api }: Pick<Connection, 'api'>): Promise<void> {
  const openAPIV3Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  for (const [kind, plural] of Object.entries(NAMES)) {
    await api.create('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `${plural}.cert-manager.io` },
      spec: {
        group: 'cert-manager.io',
        scope: 'Namespaced',
        names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
        versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema } }],
      },
    });
  }
}

/** Does what cert-manager does for a Certificate that names this Secret: replaces what it holds. */
export async function issueAsCertManager(
  { api }: Pick<Connection, 'api'>,
  { path, serverName }: { readonly path: string; readonly serverName: string },
): Promise<void> {
  const { caCert, cert, key } = makeServingCertificate({ commonName: 'brupop-apiserver', dnsNames: [serverName] });
  const data = { 'tls.crt': cert, 'tls.key': key, 'ca.crt': caCert };
  const encoded = Object.entries(data).map(([name, text]) => [name, Buffer.from(text).toString('base64')]);
  await api.patch(path, {
    metadata: { annotations: { 'cert-manager.io/certificate-name': 'brupop-apiserver' } },
    data: Object.fromEntries(encoded) as unknown,
  });
}
