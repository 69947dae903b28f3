import { expand } from './expand.ts';

const values: Record<string, string> = { HOST: '10.0.0.1', EMPTY: '', LOOP: '$(HOST)' };

describe('expanding $(NAME) as Kubernetes does', () => {
  test.each([
    ['a known name is replaced', 'https://$(HOST):80', 'https://10.0.0.1:80'],
    ['an empty value counts', '[$(EMPTY)]', '[]'],
    ['an unknown name stays as written', '$(OTHER)/x', '$(OTHER)/x'],
    ['two dollars are one', '$$', '$'],
    ['an escaped reference stays', '$$(HOST)', '$(HOST)'],
    ['an escaped dollar before a reference', '$$$(HOST)', '$10.0.0.1'],
    ['a value is not expanded again', '$(LOOP)', '$(HOST)'],
    ['shell syntax means nothing', '$HOST ${HOST}', '$HOST ${HOST}'],
    ['an open parenthesis stays', 'a$(HOST', 'a$(HOST'],
    ['a dollar at the end stays', 'cost: 5$', 'cost: 5$'],
  ])('%s', (_name, text, expected) => {
    expect(expand(text, (name) => values[name])).toBe(expected);
  });
});
