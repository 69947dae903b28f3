import { takePicture } from './chromium.ts';

it('says what to install if there is no Chromium', async () => {
  const picture = { url: 'about:blank', file: '/nowhere/a.png', width: 10, height: 10, drawMs: 1 };
  await expect(takePicture(picture, 'no-such-chromium')).rejects.toThrow(
    'expected the program no-such-chromium in PATH, found none: install Chromium',
  );
});
