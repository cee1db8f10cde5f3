import type { Media, VideoFile, VideoWriter, WriterOptions } from './types.ts';

/** Opens a writer for a video with the frame rate and the sound of another, and by default with its colours. */
export function openLike(
  media: Pick<Media, 'openWriter'>,
  { path, video, audio }: VideoFile & { readonly path: string },
  options: Omit<WriterOptions, 'color' | 'frameRate' | 'audio'> & Partial<Pick<WriterOptions, 'color'>>,
): Promise<VideoWriter> {
  const { color, frameRate } = video;
  return media.openWriter({ color, ...options, frameRate, ...(audio && { audio: { path } }) });
}
