"""Critics that know the annotations of a navigation graph; they read accessibility trees and ask no model."""
