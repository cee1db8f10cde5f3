import { describe, expect, it } from 'vitest';
import { declaredKind, extensionOf } from './media-types.ts';

describe('declaredKind', () => {
  it.each([
    ['image/png', 'x.mp4', 'image'],
    ['IMAGE/JPEG; charset=binary', '', 'image'],
    ['audio/x-wav', 'x', 'audio'],
    ['video/quicktime', '', 'video'],
    ['image/tiff', 'x.png', 'refused'],
    ['image/heif', 'IMG_0001.HEIC', 'image'],
    [undefined, 'IMG_0001.HEIC', 'image'],
    ['image/gif', 'x.png', 'image'],
    ['text/plain', 'x.png', 'refused'],
    ['application/pdf', 'x.png', 'refused'],
    [undefined, 'photo.JPG', 'image'],
    ['application/octet-stream', 'clip.final.mov', 'video'],
    ['', 'C:\\music\\song.mp3', 'audio'],
    [undefined, 'x.svg', 'refused'],
    [undefined, 'x.exe', 'refused'],
    [undefined, 'x.png/y', undefined],
    ['application/octet-stream', 'blob', undefined],
    [undefined, '.png', undefined],
    [undefined, '', undefined],
  ])('of Content-Type %o and filename %o is %o', (contentType, filename, expected) => {
    expect(declaredKind(contentType, filename)).toBe(expected);
  });

  it('offers files under an extension that is read back as the same kind', () => {
    expect(extensionOf('image/jpeg')).toBe('jpg');
    expect(declaredKind(undefined, `x.${extensionOf('video/mp2t')}`)).toBe('video');
    expect(extensionOf('text/html')).toBeUndefined();
  });
});
