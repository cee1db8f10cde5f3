import { createTheme, type MantineColorsTuple } from '@mantine/core';

/** The blue of the logo, light enough at 4 and dark enough at 7 for text on the page. */
const ink: MantineColorsTuple = [
  '#eef4fb',
  '#dbe6f3',
  '#b3cbe6',
  '#8bb0da',
  '#79a7db',
  '#4f86c6',
  '#3a72b5',
  '#2a5f9e',
  '#1f4b80',
  '#1d3557',
];

export const theme = createTheme({
  primaryColor: 'ink',
  primaryShade: { light: 7, dark: 7 },
  colors: { ink },
  fontFamily:
    'Inter, ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace',
  defaultRadius: 'md',
  autoContrast: true,
  headings: { fontWeight: '650', sizes: { h1: { fontSize: '1.5rem' }, h2: { fontSize: '1.05rem' } } },
  respectReducedMotion: true,
});
