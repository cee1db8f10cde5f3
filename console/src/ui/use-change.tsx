import { useMutation, useQueryClient } from '@tanstack/react-query';
import { createContext, useContext } from 'react';
import { type Call, call } from '../api/client.ts';
import { t } from '../text/text.ts';
import { explain } from './states.tsx';

export interface Notice {
  readonly title?: string;
  readonly text: string;
  readonly failed: boolean;
}

export const Notices = createContext<(notice: Notice) => void>(() => {});

export interface Change extends Omit<Call, 'signal'> {
  readonly path: string;
  /** What to say when it is done. */
  readonly done?: string;
}

/** Makes a change by the API, says how it went, and reads everything anew that is on the page. */
export function useChange<Answer = unknown>() {
  const client = useQueryClient();
  const notify = useContext(Notices);
  return useMutation<Answer, Error, Change>({
    mutationFn: ({ path, done: _, ...rest }) => call<Answer>(path, { method: 'POST', ...rest }),
    onSuccess: (_answer, { done }) => {
      if (done) notify({ text: done, failed: false });
      void client.invalidateQueries();
    },
    onError: (error) => notify({ title: t('error.action'), text: explain(error), failed: true }),
  });
}
