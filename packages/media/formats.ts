/** The accepted formats: the containers that uploads accept, and the usual codecs in them. */
import { resolve } from 'node:path';

const words = (...lines: string[]): string[] => lines.join(' ').split(' ');

/** Demuxers by ffmpeg's names. None of them opens another file: no playlists, lists of pictures or scripts. */
export const DEMUXERS: readonly string[] = words(
  'mov mp4 m4a 3gp 3g2 mj2 matroska webm avi mpegts mpeg mpegvideo ogg',
  'mp3 wav flac aac aiff amr amrnb amrwb gif apng',
);

const SOUND_DECODERS = words(
  'aac aac_latm mp3 mp3float mp2 mp2float mp1 mp1float ac3 eac3 dca truehd opus libopus',
  'vorbis libvorbis flac alac amrnb amrwb libopencore_amrnb libopencore_amrwb speex libspeex wmav2',
  'adpcm_ms adpcm_ima_wav adpcm_ima_qt pcm_u8 pcm_s8 pcm_s16le pcm_s16be pcm_s24le pcm_s24be pcm_s32le',
  'pcm_s32be pcm_f32le pcm_f32be pcm_f64le pcm_f64be pcm_alaw pcm_mulaw pcm_bluray pcm_dvd',
);

const PICTURE_DECODERS = words(
  'h264 hevc mpeg4 mpeg1video mpeg2video mpegvideo msmpeg4 msmpeg4v2 h263 h263p',
  'vp8 vp9 libvpx libvpx-vp9 libdav1d libaom-av1 av1 theora mjpeg prores dnxhd',
  'dvvideo rawvideo ffv1 huffyuv ffvhuff utvideo qtrle gif apng',
);

export const DECODERS: readonly string[] = [...PICTURE_DECODERS, ...SOUND_DECODERS];

/** Accepted picture codecs by ffmpeg's names; the name of one differs from that of its decoder. */
export const PICTURES: ReadonlySet<string> = new Set([...PICTURE_DECODERS, 'msmpeg4v3']);

/** Accepted sound codecs by ffmpeg's names; the names of three differ from those of their decoders. */
export const SOUND: ReadonlySet<string> = new Set([...SOUND_DECODERS, 'dts', 'amr_nb', 'amr_wb']);

/**
 * Subtitle decoders. ffprobe opens one for every track that it finds, and fails if it may not open it. None gets
 * data, because no such track is selected.
 */
const SUBTITLES = words(
  'srt subrip ass ssa mov_text webvtt text dvbsub dvdsub pgssub xsub cc_dec libzvbi_teletextdec subviewer stl microdvd',
);

/**
 * Decoders of cover pictures and of unused tracks. ffprobe must be allowed to open them to describe a file, as with
 * subtitles; an ffmpeg without them goes on. None gets data: they are not among the decoders that analyse streams,
 * and selecting a track of theirs is refused.
 */
const SPARE = words(
  'png bmp tiff webp jpeg2000 libopenjpeg jpegls',
  'flv h261 msmpeg4v1 wmv1 wmv2 wmv3 vc1 svq1 svq3 cinepak rpza vp6 vp6f vp6a vp7 dirac cfhd hap snow',
  'wmav1 wmapro wmavoice wmalossless mlp gsm gsm_ms libgsm libgsm_ms qdm2 tta wavpack ape atrac3 atrac3p ilbc g726',
);

/** Sound that is copied into an MP4 as it is: browsers play it. */
export const COPIED_AUDIO: ReadonlySet<string> = new Set(words('aac mp3 opus flac'));

/** Most streams of any kind in a file. */
const MAX_STREAMS = 128;

/**
 * Returns the options before an input that restrict ffmpeg and ffprobe to this one file. The path is a `file:`
 * address, so it cannot be taken for an option or another protocol.
 */
export function inputArgs(path: string): string[] {
  return [...limitArgs(), '-i', `file:${resolve(path)}`];
}

/**
 * Returns these options for an ffprobe that decodes nothing and so may open more decoders. The demuxer uses the
 * list for all kinds to analyse streams and ignores those of one kind.
 */
export function lookArgs(path: string): string[] {
  const opened = [...OPENED, ...SPARE].join(',');
  const more = ['-codec_whitelist:v', opened, '-codec_whitelist:a', opened];
  return [...limitArgs(), ...more, '-i', `file:${resolve(path)}`];
}

const OPENED = [...DECODERS, ...SUBTITLES];

const limitArgs = () => [
  ...['-protocol_whitelist', 'file', '-format_whitelist', DEMUXERS.join(',')],
  ...['-codec_whitelist', OPENED.join(','), '-max_streams', String(MAX_STREAMS)],
];

/**
 * Returns the limit of a decoder's pictures. It is a little above the accepted size, for the padding that codecs
 * add.
 */
export const maxPixelsArgs = (maxPixels: number) => [
  '-max_pixels',
  String(Math.ceil(maxPixels * 1.1) + 500_000),
];
