import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { call } from '../api/client.ts';

/** Reads an address of the API. @param everyMs pause before it is read again; undefined: it is not */
export function useRead<Answer>(
  path: string,
  everyMs?: number | ((answer: Answer | undefined) => number | undefined),
) {
  return useQuery<Answer>({
    queryKey: [path],
    queryFn: ({ signal }) => call<Answer>(path, { signal }),
    refetchInterval: ({ state }) => (typeof everyMs === 'function' ? everyMs(state.data) : everyMs) ?? false,
  });
}

/** Reads a list page by page. `next` is the part of the address with which the page after this one is asked for. */
export function usePages<Answer>(
  path: string,
  next: (answer: Answer) => string | undefined,
  everyMs?: number,
) {
  return useInfiniteQuery<Answer, Error, { pages: Answer[] }, readonly unknown[], string>({
    queryKey: [path, 'pages'],
    initialPageParam: '',
    queryFn: ({ pageParam, signal }) => {
      const joint = pageParam && (path.includes('?') ? '&' : '?');
      return call<Answer>(`${path}${joint}${pageParam}`, { signal });
    },
    getNextPageParam: next,
    // Only the first page is kept fresh: reading all of them each time would use up the limit of the key.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) <= 1 ? (everyMs ?? false) : false),
  });
}

/** Returns the part of the address for an answer with a cursor. */
export const byCursor = ({ next_cursor }: { readonly next_cursor: string | null }) =>
  next_cursor === null ? undefined : `cursor=${encodeURIComponent(next_cursor)}`;
