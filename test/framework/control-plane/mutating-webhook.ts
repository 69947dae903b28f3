import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { makeServingCertificate } from '../certificates.ts';

/** An admission webhook on this machine. */
export interface MutatingWebhook {
  /** Of a MutatingWebhookConfiguration. */
  readonly clientConfig: { readonly url: string; readonly caBundle: string };
  close(): Promise<void>;
}

const base64 = (content: string): string => Buffer.from(content).toString('base64');

/** Starts a webhook that sets this label on every object, which must have labels. */
export async function startLabellingWebhook(label: string): Promise<MutatingWebhook> {
  const { caCert, cert, key } = makeServingCertificate({ commonName: 'webhook', ipAddresses: ['127.0.0.1'] });
  const server = createServer({ cert, key }, reviewer(label)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    clientConfig: { url: `https://127.0.0.1:${port}/`, caBundle: base64(caCert) },
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function reviewer(label: string): RequestListener {
  const patch = base64(JSON.stringify([{ op: 'add', path: `/metadata/labels/${label}`, value: 'true' }]));
  const answer = async (...[request, response]: Parameters<RequestListener>): Promise<void> => {
    const { request: review } = JSON.parse(await text(request)) as { request: { uid: string } };
    const body = {
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: review.uid, allowed: true, patchType: 'JSONPatch', patch },
    };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  return (request, response) => {
    answer(request, response).catch(() => response.destroy());
  };
}
