import type { MediaKind } from '@semblance/engine-api/capabilities';

/** An accepted type, with other names that clients use and the extensions of its files. */
interface MediaType {
  readonly type: string;
  readonly kind: MediaKind;
  readonly aliases: readonly string[];
  readonly extensions: readonly string[];
}

const media = (kind: MediaKind, type: string, aliases: string[], extensions: string[]): MediaType => ({
  kind,
  type,
  aliases,
  extensions,
});

const MEDIA_TYPES: readonly MediaType[] = [
  media('image', 'image/jpeg', ['image/jpg', 'image/pjpeg'], ['jpg', 'jpeg', 'jpe', 'jfif']),
  media('image', 'image/png', ['image/x-png', 'image/apng'], ['png', 'apng']),
  media('image', 'image/webp', [], ['webp']),
  media('image', 'image/heic', ['image/heif'], ['heic', 'heif', 'hif']),
  media('image', 'image/avif', [], ['avif']),
  media('image', 'image/gif', [], ['gif']),
  media(
    'audio',
    'audio/mpeg',
    ['audio/mp3', 'audio/x-mp3', 'audio/mpeg3', 'audio/x-mpeg'],
    ['mp3', 'mp2', 'mpga'],
  ),
  media(
    'audio',
    'audio/wav',
    ['audio/x-wav', 'audio/wave', 'audio/vnd.wave', 'audio/x-pn-wav'],
    ['wav', 'wave'],
  ),
  media('audio', 'audio/flac', ['audio/x-flac'], ['flac']),
  media(
    'audio',
    'audio/ogg',
    ['application/ogg', 'audio/opus', 'audio/vorbis', 'audio/x-ogg'],
    ['ogg', 'oga', 'opus', 'spx'],
  ),
  media('audio', 'audio/mp4', ['audio/x-m4a', 'audio/m4a', 'audio/x-m4b'], ['m4a', 'm4b', 'f4a']),
  media('audio', 'audio/aac', ['audio/x-aac', 'audio/aacp', 'audio/x-hx-aac-adts'], ['aac', 'adts']),
  media('audio', 'audio/webm', [], ['weba']),
  media('audio', 'audio/x-matroska', [], ['mka']),
  media('audio', 'audio/aiff', ['audio/x-aiff'], ['aif', 'aiff', 'aifc']),
  media('audio', 'audio/amr', ['audio/3gpp', 'audio/amr-wb'], ['amr']),
  media('video', 'video/mp4', ['video/x-m4v', 'application/mp4'], ['mp4', 'm4v', 'mp4v', 'f4v']),
  media('video', 'video/quicktime', [], ['mov', 'qt']),
  media('video', 'video/webm', [], ['webm']),
  media('video', 'video/x-matroska', ['video/matroska'], ['mkv']),
  media('video', 'video/x-msvideo', ['video/avi', 'video/msvideo', 'video/vnd.avi'], ['avi']),
  media('video', 'video/mp2t', ['video/mpegts'], ['ts', 'mts', 'm2ts', 'm2t']),
  media('video', 'video/mpeg', ['video/mpg', 'video/mp2p'], ['mpg', 'mpeg', 'mpe', 'vob', 'm2v', 'm1v']),
  media('video', 'video/ogg', ['video/x-ogg'], ['ogv']),
  media('video', 'video/3gpp', ['video/3gpp2'], ['3gp', '3g2', '3gpp']),
];

const KIND_BY_TYPE = new Map(
  MEDIA_TYPES.flatMap((m) => [m.type, ...m.aliases].map((name) => [name, m.kind])),
);
const KIND_BY_EXTENSION = new Map(MEDIA_TYPES.flatMap((m) => m.extensions.map((name) => [name, m.kind])));

/** Types that HTTP clients write when they do not know; they say nothing about the file. */
const SAYS_NOTHING = new Set(['', 'application/octet-stream', 'binary/octet-stream', 'application/x-binary']);

/** What the client declares: a kind, `refused` for a type that is not accepted, or nothing. */
export type Declaration = MediaKind | 'refused' | undefined;

/**
 * Returns what a part declares itself to be: by its Content-Type, otherwise by the extension of its filename.
 * Without either (a nameless blob) only the bytes decide.
 */
export function declaredKind(contentType: string | undefined, filename: string): Declaration {
  const type = (contentType ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (!SAYS_NOTHING.has(type)) return KIND_BY_TYPE.get(type) ?? 'refused';
  const extension = /[^./\\]\.([^./\\]+)$/.exec(filename)?.[1]?.trim().toLowerCase();
  if (!extension) return undefined;
  return KIND_BY_EXTENSION.get(extension) ?? 'refused';
}

/** Returns the extension under which a file of a type from `sniff` is offered. */
export function extensionOf(type: string): string | undefined {
  return MEDIA_TYPES.find((m) => m.type === type)?.extensions[0];
}
