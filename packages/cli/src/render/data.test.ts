import { parse } from 'yaml';
import { dataText } from './data.ts';

const texts = [
  'plain',
  'red \u001B[31mtext',
  'C1 \u009B31m and \u007F',
  'right to left \u202Eevil\u2066',
  'zero\u200Bwidth and a tag \u{E0041}',
  'lines\nand \u2028 others\r\t',
  '- looks like: yaml # \u202E',
];

it.each(['json', 'yaml'] as const)('%s stands for the same, without a character that steers a terminal', (format) => {
  const data = { texts, 'key \u202E': null, number: 1 };
  const text = dataText(format, data);
  // What is left is text and ends of lines.
  expect(text).toMatch(/^[\n\x20-\x7E]*$/u);
  expect(format === 'json' ? JSON.parse(text) : parse(text)).toEqual(data);
});
