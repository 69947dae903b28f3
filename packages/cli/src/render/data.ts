/** Objects as JSON or YAML, without characters that would steer the terminal. */
import { Document, isScalar, visit } from 'yaml';
import { escaped, hasUnsafe } from './screen.ts';

export function dataText(format: 'json' | 'yaml', data: unknown): string {
  if (format === 'json') return `${escaped(JSON.stringify(data, undefined, 2), 'json')}\n`;
  const document = new Document(JSON.parse(JSON.stringify(data)));
  // Escapes are only read between double quotes.
  visit(document, {
    Scalar: (_key, node) => {
      if (isScalar(node) && typeof node.value === 'string' && hasUnsafe(node.value)) node.type = 'QUOTE_DOUBLE';
    },
  });
  return escaped(document.toString({ lineWidth: 0 }), 'yaml');
}
