import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';

/** Creates a registry with the metrics of the process and `brupop_component_info`. */
export function createRegistry(component: string): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const info = new Gauge({
    name: 'brupop_component_info',
    help: 'Always 1; the labels name the component and its Node.js release.',
    labelNames: ['component', 'node_version'] as const,
    registers: [registry],
  });
  info.set({ component, node_version: process.version }, 1);
  return registry;
}

/** The `metrics` option of {@link serveHealth} for `registry`. */
export function metricsOf(registry: Registry): () => Promise<{ contentType: string; body: string }> {
  return async () => ({ contentType: registry.contentType, body: await registry.metrics() });
}
