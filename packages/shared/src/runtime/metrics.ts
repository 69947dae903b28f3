import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';

/** A registry with the metrics of the process and `brupop_component_info`. */
export function createRegistry(component: string): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const info = new Gauge({
    name: 'brupop_component_info',
    help: 'Always 1; says which component and Node.js release this is.',
    labelNames: ['component', 'node_version'] as const,
    registers: [registry],
  });
  info.set({ component, node_version: process.version }, 1);
  return registry;
}

/** What a health listener needs to serve `registry`. */
export function metricsOf(registry: Registry): () => Promise<{ contentType: string; body: string }> {
  return async () => ({ contentType: registry.contentType, body: await registry.metrics() });
}
